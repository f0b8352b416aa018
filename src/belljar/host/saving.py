"""A sandbox's state out of it and into another. What comes from inside is carried, capped, and never interpreted."""

from __future__ import annotations

import asyncio
import base64
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import belljar_kernel
from belljar.engines.base import Event, Spec, ignore
from belljar.errors import InvalidRequest, PackageError, SandboxError
from belljar.host.text import plain
from belljar.state.checkpoint import Checkpoint, CheckpointReport
from belljar.state.envelope import CHUNK, Opened, Piece, seal

if TYPE_CHECKING:
    from belljar.host.session import Session

MAX_BYTES = 4 << 30
MAX_NAMES = 100_000
MAX_REASON = 500
TIMEOUT_S = 300.0
KINDS = ("sources", "files", "names")
MOST_ENDS = 10


async def checkpoint(session: Session, key: bytes, name: str | None, owner: str) -> Checkpoint:
    """Save the variables and the files of a sandbox, signed.

    Raises:
        SandboxError: when there is no Python to save, or it did not answer.
    """
    arriving = Arriving(session.spec)
    done = await session.ask_live({"type": "save", "max_bytes": arriving.max_bytes}, arriving, TIMEOUT_S)
    return await asyncio.to_thread(_seal, session, arriving, done, key, name, owner)


async def restore(
    session: Session, opened: Opened, packages: Sequence[str] = (), sources: Sequence[str] = ()
) -> CheckpointReport:
    """Give a fresh sandbox packages, and the state of a checkpoint. All that is in it runs inside only.

    Names whose values end the Python are left out: a fresh one is given the rest.

    Raises:
        SandboxError: when the Python ended on the way for another reason, or too often.
    """
    without = await _bring(session, packages, sources) if packages else {}
    known: dict[int, Event] = {}  # what became of parts that are not given again, by their number
    for end in range(MOST_ENDS + 1):
        restoring = Restoring(without)
        for number, (part, pieces) in enumerate(opened.parts()):
            try:
                done = known[number] if number in known else await _load(session, part, pieces)
            except SandboxError as failure:
                if session.closed or session.process.alive or part["kind"] != "names" or end == MOST_ENDS:
                    raise
                known[number] = {"error": {"name": "SandboxError", "value": str(failure)}}
                if not await session.start_over():
                    known = {number: done for number, done in known.items() if "error" in done}
                break
            if part["kind"] == "files":
                known[number] = done
            restoring.take(part, done)
        else:
            break
    report = restoring.report()
    session.count = opened.header["count"]
    session.restored = f"the state of checkpoint {opened.header['id']} was restored{_without(report)}"
    return report


async def _load(session: Session, part: dict[str, Any], pieces: list[Piece]) -> Event:
    """The answer to the last piece of a part."""
    done: Event = {}
    for left, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
        data = base64.b64encode(piece.data).decode("ascii")
        request = {"type": "load", "kind": part["kind"], "names": part["names"], "data": data}
        done = await session.ask_live(request | {"packed": piece.is_packed, "last": not left}, ignore, TIMEOUT_S)
    return done


class Arriving:
    """Takes the `state` Events of one `save`."""

    def __init__(self, spec: Spec) -> None:
        self.max_bytes = min(MAX_BYTES, (spec.limits.memory_mb + spec.limits.disk_mb) << 20)
        self._left = self.max_bytes + (64 << 20)  # archives and pickles have some bytes of their own
        self._pieces: dict[int, list[bytearray]] = {}
        self._failure: str | None = None

    def __call__(self, event: Event) -> None:
        """One piece of one part; what the code prints meanwhile is dropped."""
        if event["type"] != "state" or self._failure is not None:
            return
        part, data = event.get("part"), event.get("data")
        try:
            piece = base64.b64decode(data, validate=True) if isinstance(data, str) else b""
        except ValueError:
            piece = b""
        self._left -= len(piece)
        if type(part) is not int or not piece or len(self._pieces) > MAX_NAMES:
            self._fail("the sandbox answered with nonsense")
            return
        if self._left < 0:
            self._fail(f"the state is larger than {self.max_bytes:,} bytes; delete names or files, or raise the limits")
            return
        pieces = self._pieces.setdefault(part, [bytearray()])
        if len(pieces[-1]) + len(piece) > CHUNK:  # small ones are joined, however many are sent
            pieces.append(bytearray())
        pieces[-1] += piece

    def _fail(self, why: str) -> None:
        self._failure = why
        self._pieces.clear()

    def parts(self, done: Event) -> Iterator[tuple[dict[str, Any], list[bytearray]]]:
        """The parts that the kernel says are whole.

        Raises:
            SandboxError: when they are not what can be kept.
        """
        rows = done.get("parts")
        if self._failure is not None or not isinstance(rows, list):
            error = done.get("error")
            said = error.get("value") if isinstance(error, dict) else None
            raise SandboxError(f"the state could not be saved: {self._failure or plain(said, MAX_REASON)}")
        for row in rows[:MAX_NAMES]:
            if isinstance(row, dict) and row.get("kind") in KINDS and type(row.get("part")) is int:
                pieces = self._pieces.pop(row["part"], [])
                if pieces:
                    yield {"kind": row["kind"], "names": _texts(row.get("names"))}, pieces


def _seal(session: Session, arrived: Arriving, done: Event, key: bytes, name: str | None, owner: str) -> Checkpoint:
    """The checkpoint of what arrived. Blocks while it compresses.

    Raises:
        SandboxError: when what arrived is not what can be kept.
    """
    python, spec = done.get("python"), session.spec
    parts = list(arrived.parts(done))
    header: dict[str, Any] = {
        "format": 1,
        "id": str(uuid.uuid4()),
        "name": name,
        "owner": owner,
        "created": time.time(),
        "engine": session.engine_name,
        "python": python if isinstance(python, str) and re.fullmatch(r"\d+\.\d+\.\d+", python) else "",
        "kernel": belljar_kernel.digest(),
        "packages": list(spec.environment.packages),
        "requirements": _requirements(spec),
        "policy": spec.policy.packages if isinstance(spec.policy.packages, str) else list(spec.policy.packages),
        "limits": asdict(spec.limits),
        "count": session.count,
        "saved": [name for part, _ in parts for name in part["names"]],
        "skipped": _reasons(done.get("skipped")),
        "files_skipped": _reasons(done.get("files_skipped")),
    }
    data = seal(header, parts, key)
    return Checkpoint.of(header, data)


class Restoring:
    """Collects what became of each part of a checkpoint."""

    def __init__(self, packages_skipped: dict[str, str]) -> None:
        self._packages_skipped = packages_skipped
        self._loaded: list[str] = []
        self._skipped: dict[str, str] = {}
        self._files_skipped: dict[str, str] = {}

    def take(self, part: dict[str, Any], done: Event) -> None:
        """The answer to the last piece of a part."""
        error, names = done.get("error"), _texts(part["names"])
        if isinstance(error, dict):
            why = plain(f"{error.get('name')}: {error.get('value')}", MAX_REASON)
            missing = dict.fromkeys(names or [part["kind"]], why)
        else:
            missing = _reasons(done.get("skipped"))
        self._loaded += [name for name in names if name not in missing]
        (self._files_skipped if part["kind"] == "files" else self._skipped).update(missing)

    def report(self) -> CheckpointReport:
        """Which names are there again."""
        return CheckpointReport(self._loaded, self._skipped, self._files_skipped, self._packages_skipped)


async def _bring(session: Session, packages: Sequence[str], sources: Sequence[str]) -> dict[str, str]:
    """Install what can be had, all at once or else one by one; the rest, and why not."""
    from belljar.packages.requirements import check

    skipped: dict[str, str] = {}
    try:
        await session.install(check(packages, sources=sources))
    except (PackageError, InvalidRequest) as failure:
        if len(packages) == 1:
            return {packages[0]: str(failure)[:MAX_REASON]}
        for text in packages:
            skipped |= await _bring(session, [text], sources)
    return skipped


def _requirements(spec: Spec) -> list[str]:
    """What was installed into a sandbox, as it was asked for: an address rather than the wheel that was built of it."""
    if not spec.environment.requirements:
        return []
    from belljar.host.building import origin

    return [origin(text) for text in spec.environment.requirements]


def _without(report: CheckpointReport) -> str:
    """What is not there again, by name."""
    missing = list(dict.fromkeys([*report.packages_skipped, *sorted(report.skipped)]))
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    return f", without {', '.join(missing[:10])}{more}" if missing else ""


def _texts(given: object) -> list[str]:
    rows = given[:MAX_NAMES] if isinstance(given, list) else []
    return [plain(row, MAX_REASON) for row in rows if isinstance(row, str)]


def _reasons(given: object) -> dict[str, str]:
    rows = list(given.items())[:MAX_NAMES] if isinstance(given, dict) else []
    return {plain(name, MAX_REASON): plain(why, MAX_REASON) for name, why in rows if isinstance(why, str)}
