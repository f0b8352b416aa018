"""A sandbox's state out of it and into another. What comes from inside is carried, capped, and never interpreted."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import belljar_kernel
from belljar.engines.base import Event, Spec
from belljar.errors import InvalidRequest, PackageError, SandboxError
from belljar.host.budget import Budget
from belljar.host.session import Session
from belljar.packages.environment import Environment
from belljar.state.checkpoint import Checkpoint, CheckpointReport
from belljar.state.envelope import CHUNK, Opened, Piece, seal
from belljar.text import plain
from belljar_kernel.protocol import PART_KINDS

MAX_BYTES = 4 << 30
MAX_NAMES = 100_000
MAX_REASON = 500
TIMEOUT_S = 300.0
LEAST_PATIENCE_S = 2.0
MOST_ENDS = 10


async def checkpoint(session: Session, key: bytes, name: str | None, owner: str) -> Checkpoint:
    """Save the variables and the files of a sandbox, signed.

    Raises:
        SandboxError: when there is no Python to save, or it did not answer.
    """
    made = await snapshot(session, key, name, owner)
    session.note_checkpoint(made.id)
    return made


async def snapshot(session: Session, key: bytes, name: str | None, owner: str) -> Checkpoint:
    """Make a checkpoint without recording it as the parent of the next one. Forks go through it."""
    arriving = Arriving(session.spec, MAX_BYTES, session.shared.states)
    done = await session.ask_live(arriving.request, arriving, TIMEOUT_S)
    return await asyncio.to_thread(Taken(session, arriving, done).seal, key, name, owner)


async def take(session: Session, max_bytes: int, timeout_s: float) -> Taken:
    """Ask the kernel for its state. The caller must hold the turn, and may release it before it uses the answer.

    Raises:
        SandboxError: when its Python ended, or did not answer.
    """
    arriving = Arriving(session.spec, max_bytes, session.shared.states)
    return Taken(session, arriving, await session.ask_now(arriving.request, timeout_s, arriving))


async def restore(
    session: Session, opened: Opened, packages: Sequence[str] = (), sources: Sequence[str] = ()
) -> CheckpointReport:
    """Give a fresh sandbox packages, and the state of a checkpoint. All that is in it runs inside only.

    Names whose values end the Python are left out: a fresh one is given the rest.

    Raises:
        SandboxError: when the Python ended on the way for another reason, or too often.
    """
    missing = await _bring(session, packages, sources) if packages else {}
    async with session.turn:
        session.check_live()
        report = replace(await load(session, opened), packages_skipped=missing)
        origin = opened.header["id"]
        news = f"the state of checkpoint {origin} was restored{without(report)}"
        session.continue_from(opened.header["count"], origin, news)
    return report


async def load(
    session: Session, opened: Opened, with_files: bool = True, patience_s: float = TIMEOUT_S, at_any_cost: bool = False
) -> CheckpointReport:
    """Send a checkpoint in, with or without its files; with them, if they get lost. The caller must hold the turn.

    Names whose values end the Python, or keep it busy for longer than the patience, are left out: a fresh one is given
    the rest. `at_any_cost` leaves out more when there are too many of them, and what was not tried.

    Raises:
        SandboxError: when the Python ended on the way for another reason, or too often.
    """
    known: dict[int, Event] = {}  # what became of parts that are not given again, by their number
    for end in range(MOST_ENDS + 2):
        restoring = Restoring()
        for number, (part, pieces) in enumerate(opened.parts()):
            if part["kind"] == "files" and not with_files:
                continue
            try:
                done = known[number] if number in known else await _give(session, part, pieces, patience_s)
            except SandboxError as failure:
                if session.closed or part["kind"] != "names" or (end >= MOST_ENDS and not at_any_cost):
                    raise
                known[number] = _left_out(str(failure))
                if (
                    end >= MOST_ENDS - 1 and at_any_cost
                ):  # those before it are known to be harmless; then not even those
                    first = 0 if end >= MOST_ENDS else number
                    known |= _untried(opened, first, known)
                patience_s = max(LEAST_PATIENCE_S, patience_s / 2)
                if not await session.start_over():
                    with_files, known = True, {number: done for number, done in known.items() if "error" in done}
                break
            if part["kind"] == "files":
                known[number] = done
            restoring.take(part, done)
        else:
            break
    session.note_files(are_lost=session.are_files_lost and not with_files)
    return restoring.report()


def _untried(opened: Opened, first: int, known: Mapping[int, Event]) -> dict[int, Event]:
    """Names that are not given any more, from this part on."""
    why = f"it was not tried: {MOST_ENDS} others had ended the Python"
    rows = enumerate(opened.header["parts"])
    return {at: _left_out(why) for at, row in rows if at >= first and row["kind"] == "names" and at not in known}


def _left_out(why: str) -> Event:
    return {"error": {"name": "SandboxError", "value": why}}


async def _give(session: Session, part: dict[str, Any], pieces: list[Piece], patience_s: float) -> Event:
    """The answer to the last piece of a part."""
    done: Event = {}
    for left, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
        data = base64.b64encode(piece.data).decode("ascii")
        request = {"type": "load", "kind": part["kind"], "names": part["names"], "data": data}
        done = await session.ask_now(request | {"packed": piece.is_packed, "last": not left}, patience_s)
    return done


class Arriving:
    """Collects the `state` Events that answer a `save` Request."""

    def __init__(self, spec: Spec, max_bytes: int, budget: Budget) -> None:
        self.max_bytes = min(max_bytes, (spec.limits.memory_mb + spec.limits.disk_mb) << 20)
        self._left = self.max_bytes + (64 << 20)  # archives and pickles have some bytes of their own
        self._pieces: dict[int, list[bytearray]] = {}
        self._failure: str | None = None
        self._budget = budget
        self._held = [0]  # in a list, so that the finalizer gives back what is held at the end
        weakref.finalize(self, _give_back, budget, self._held)

    @property
    def request(self) -> dict[str, Any]:
        """What to ask for."""
        return {"type": "save", "max_bytes": self.max_bytes}

    def __call__(self, event: Event) -> None:
        """Take a piece of a part. What the code prints meanwhile is dropped."""
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
        self._budget.take(len(piece))
        self._held[0] += len(piece)
        if self._budget.held > self._budget.most and self._held[0] < self._budget.held:  # one alone may have more
            self._fail("the host is saving too much at once; try again later")
            return
        pieces = self._pieces.setdefault(part, [bytearray()])
        if len(pieces[-1]) + len(piece) > CHUNK:  # small ones are joined, however many are sent
            pieces.append(bytearray())
        pieces[-1] += piece

    def _fail(self, why: str) -> None:
        self._failure = why
        self._pieces.clear()
        _give_back(self._budget, self._held)

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
            if isinstance(row, dict) and row.get("kind") in PART_KINDS and type(row.get("part")) is int:
                pieces = self._pieces.pop(row["part"], [])
                if pieces:
                    yield {"kind": row["kind"], "names": _texts(row.get("names"))}, pieces


class Taken:
    """A state that has left its sandbox, not sealed yet. Blocks while it is sealed."""

    def __init__(self, session: Session, arrived: Arriving, done: Event) -> None:
        self.count = session.count
        self._origin = session.origin
        self._engine = session.engine.name
        self._origin_of = session.shared.sources.origin
        self._spec = session.spec
        self._done = done
        self._arrived = arrived
        self._parts: list[tuple[dict[str, Any], list[bytearray]]] | None = None

    @property
    def skipped(self) -> dict[str, str]:
        """The reason for each name that could not be saved."""
        return _reasons(self._done.get("skipped"))

    def content(self) -> str:
        """A digest of the names and files. Runs that change neither do not change it.

        Raises:
            SandboxError: when what arrived is not what can be kept.
        """
        digest = hashlib.sha256(repr(sorted(self.skipped)).encode())
        for part, pieces in self._all_parts():
            if part["kind"] != "sources":  # every run adds to them
                digest.update(repr((part["kind"], part["names"])).encode())
                for piece in pieces:
                    digest.update(piece)
        return digest.hexdigest()

    def seal(self, key: bytes, name: str | None, owner: str) -> Checkpoint:
        """The checkpoint of it.

        Raises:
            SandboxError: when what arrived is not what can be kept.
        """
        python, spec = self._done.get("python"), self._spec
        parts = self._all_parts()
        header: dict[str, Any] = {
            "format": 1,
            "id": str(uuid.uuid4()),
            "name": name,
            "parent": self._origin,
            "owner": owner,
            "created": time.time(),
            "engine": self._engine,
            "python": python if isinstance(python, str) and re.fullmatch(r"\d+\.\d+\.\d+", python) else "",
            "kernel": belljar_kernel.digest(),
            "packages": list(spec.environment.packages),
            "requirements": requirements(spec.environment, self._origin_of),
            "policy": spec.policy.packages if isinstance(spec.policy.packages, str) else list(spec.policy.packages),
            "limits": asdict(spec.limits),
            "count": self.count,
            "saved": [name for part, _ in parts for name in part["names"]],
            "skipped": self.skipped,
            "files_skipped": _reasons(self._done.get("files_skipped")),
        }
        return Checkpoint.of(header, seal(header, parts, key))

    def _all_parts(self) -> list[tuple[dict[str, Any], list[bytearray]]]:
        if self._parts is None:
            self._parts = list(self._arrived.parts(self._done))
        return self._parts


class Restoring:
    """Collects what became of each part of a checkpoint."""

    def __init__(self) -> None:
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
        return CheckpointReport(self._loaded, self._skipped, self._files_skipped)


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


def requirements(environment: Environment, origin: Callable[[str], str]) -> list[str]:
    """What was installed into a sandbox, as it was asked for: an address rather than the wheel that was built of it."""
    return [origin(text) for text in environment.requirements]


def without(report: CheckpointReport) -> str:
    """What is not there again, by name."""
    names = [*report.packages_skipped, *sorted(report.skipped), *sorted(report.files_skipped)]
    missing = list(dict.fromkeys(names))
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    return f", without {', '.join(missing[:10])}{more}" if missing else ""


def _give_back(budget: Budget, held: list[int]) -> None:
    budget.give_back(held[0])
    held[0] = 0


def _texts(given: object) -> list[str]:
    rows = given[:MAX_NAMES] if isinstance(given, list) else []
    return [plain(row, MAX_REASON) for row in rows if isinstance(row, str)]


def _reasons(given: object) -> dict[str, str]:
    rows = list(given.items())[:MAX_NAMES] if isinstance(given, dict) else []
    return {plain(name, MAX_REASON): plain(why, MAX_REASON) for name, why in rows if isinstance(why, str)}
