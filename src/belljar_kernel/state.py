"""The `save` and `load` Requests: the namespace by value and the workspace, as parts of bytes in both directions."""

from __future__ import annotations

import base64
import sys

from belljar_kernel import archive, codec, source, travelling
from belljar_kernel.pickling import StatePickler, load
from belljar_kernel.pieces import Reader, Writer
from belljar_kernel.sharing import Survey, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from belljar_kernel.answer import Answer
    from belljar_kernel.kernel import Kernel

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
                files_skipped = archive.pack(self._kernel.workspace, files, left)
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
        arrived.add(base64.b64decode(request["data"], validate=True), request["packed"])
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
