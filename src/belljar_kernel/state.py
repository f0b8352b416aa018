"""The `save` and `load` Requests: the namespace by value and the workspace, as parts of bytes in both directions."""

from __future__ import annotations

import base64
import sys
from collections import deque

from belljar_kernel import archive, codec, source, travelling
from belljar_kernel.pickling import StatePickler, load
from belljar_kernel.sharing import Survey, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from belljar_kernel.answer import Answer
    from belljar_kernel.kernel import Kernel

CHUNK = 6 << 20
SOURCES_BYTES = 16 << 20
_NAMES_TOLD = 2000


class State:
    """Of one kernel: what is being saved or loaded at the moment."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._arrived = Reader()
        self._sent = 0

    def save(self, request: dict[str, Any], answer: Answer) -> dict[str, Any]:
        """Send everything that can be saved as `state` Events; tell what it was and what could not be."""
        session, interrupts = self._kernel.session, self._kernel.interrupts
        left: int = request["max_bytes"]
        interrupts.open()
        session.prepare()
        parts: list[dict[str, Any]] = []
        try:
            interrupts.arm()
            with self._send(answer, parts, "sources") as texts:
                texts.write(codec.encode(_sources(session.flags)))
            with self._send(answer, parts, "files") as files:
                files_skipped = archive.pack(self._kernel.workspace, files)
            left -= files.size
            namespace = session.namespace
            names = [name for name in namespace if type(name) is str and name not in session.own_names]
            survey = Survey(namespace, names, lambda: interrupts.fired)
            fitting = []
            for name, size in survey.sizes.items():
                if size <= left:
                    left -= size
                    fitting.append(name)
                else:
                    survey.skipped[name] = f"its {size:,} bytes do not fit into what may be saved"
            for group in survey.groups(fitting):
                self._save_group(group, survey, answer, parts)
        finally:
            interrupts.disarm()
            travelling.forget()
        return {
            "python": ".".join(str(number) for number in sys.version_info[:3]),
            "parts": parts,
            "saved": [name for part in parts for name in part["names"]],
            "skipped": _told(survey.skipped),
            "files_skipped": _told(files_skipped),
        }

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take one piece of a part; with its last piece, put back what the part has."""
        arrived, self._arrived = self._arrived, Reader()
        arrived.add(base64.b64decode(request["data"], validate=True))
        if not request["last"]:
            self._arrived = arrived
            return {}
        session, interrupts = self._kernel.session, self._kernel.interrupts
        interrupts.open()
        session.prepare()
        self._kernel.surroundings.enter({}, None)
        self._kernel.watch_imports()
        try:
            interrupts.arm()
            if request["kind"] == "sources":
                known = codec.decode(arrived.read())
                source.remember(known["texts"])
                session.flags = known["flags"]
            elif request["kind"] == "files":
                return {"loaded": [], "skipped": _told(archive.unpack(arrived, self._kernel.workspace))}
            else:
                return self._load_group(request["names"], arrived)
        finally:
            interrupts.disarm()
            self._kernel.surroundings.leave()
        return {"loaded": [], "skipped": {}}

    def _save_group(self, names: list[str], survey: Survey, answer: Answer, parts: list[dict[str, Any]]) -> None:
        """Names that share objects, in one pickle; one by one if that does not work after all."""
        namespace = self._kernel.session.namespace
        try:
            with self._send(answer, parts, "names", names) as file:
                StatePickler(file, namespace).dump({name: namespace[name] for name in names})
        except BaseException as error:
            del parts[-1]
            if self._kernel.interrupts.fired:
                raise
            if len(names) == 1:
                survey.skipped[names[0]] = reason(namespace.get(names[0]), error)
            else:
                for name in names:
                    self._save_group([name], survey, answer, parts)

    def _load_group(self, names: list[str], arrived: Reader) -> dict[str, Any]:
        namespace = self._kernel.session.namespace
        try:
            values = load(arrived, namespace)
        except BaseException as error:
            if self._kernel.interrupts.fired:
                raise
            why = reason(None, error)
            return {"loaded": [], "skipped": dict.fromkeys(names, why)}
        namespace.update(values)
        return {"loaded": names, "skipped": {}}

    def _send(self, answer: Answer, parts: list[dict[str, Any]], kind: str, names: Sequence[str] = ()) -> Writer:
        self._sent += 1
        parts.append({"part": self._sent, "kind": kind, "names": list(names)})
        return Writer(answer, self._sent)


class Writer:
    """A file whose content leaves as `state` Events of one part."""

    def __init__(self, answer: Answer, part: int) -> None:
        self.size = 0
        self._answer = answer
        self._part = part
        self._held = bytearray()

    def write(self, data: Any) -> int:
        """Send what is enough for an Event."""
        view = memoryview(data).cast("B")
        self.size += len(view)
        if len(self._held) + len(view) < CHUNK:
            self._held += view
            return len(view)
        self.flush()
        for start in range(0, len(view), CHUNK):
            self._emit(view[start : start + CHUNK])
        return len(view)

    def flush(self) -> None:
        """Send what is held back."""
        if self._held:
            held, self._held = self._held, bytearray()
            self._emit(held)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def _emit(self, data: Any) -> None:
        self._answer.send("state", {"part": self._part, "data": base64.b64encode(data).decode("ascii")})


class Reader:
    """A file of the pieces that arrived; each is let go as soon as it was read."""

    def __init__(self) -> None:
        self._pieces: deque[memoryview] = deque()

    def add(self, piece: bytes) -> None:
        """One more piece."""
        if piece:
            self._pieces.append(memoryview(piece))

    def read(self, size: int = -1) -> bytes:
        """As many bytes as are asked for, or are left."""
        taken = bytearray()
        while self._pieces and (size < 0 or len(taken) < size):
            taken += self._take(size - len(taken) if size >= 0 else -1)
        return bytes(taken)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        view, done = memoryview(buffer).cast("B"), 0
        while self._pieces and done < len(view):
            piece = self._take(len(view) - done)
            view[done : done + len(piece)] = piece
            done += len(piece)
        return done

    def readline(self) -> bytes:
        """Up to the end of a line."""
        taken = bytearray()
        while self._pieces and not taken.endswith(b"\n"):
            taken += self._take(1)
        return bytes(taken)

    def _take(self, size: int) -> memoryview:
        piece = self._pieces.popleft()
        if 0 <= size < len(piece):
            self._pieces.appendleft(piece[size:])
            piece = piece[:size]
        return piece


def _sources(flags: int) -> dict[str, Any]:
    """The code of the last runs, as much as is worth keeping."""
    texts, left = {}, SOURCES_BYTES
    for name, text in reversed(source.all_texts().items()):
        left -= len(text)
        if left < 0:
            break
        texts[name] = text
    return {"texts": dict(reversed(texts.items())), "flags": flags}


def _told(reasons: dict[str, str]) -> dict[str, str]:
    return dict(list(reasons.items())[:_NAMES_TOLD])
