"""A sandbox's state out of it and into another. What comes from inside is carried, capped, and never interpreted."""

from __future__ import annotations

import asyncio
import base64
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import belljar_kernel
from belljar.engines.base import Event, Spec, ignore
from belljar.errors import SandboxError
from belljar.state.checkpoint import Checkpoint, CheckpointReport
from belljar.state.envelope import CHUNK, Opened, seal

if TYPE_CHECKING:
    from belljar.host.session import Session

MAX_BYTES = 4 << 30
MAX_NAMES = 100_000
MAX_REASON = 500
TIMEOUT_S = 300.0
KINDS = ("sources", "files", "names")


async def checkpoint(session: Session, key: bytes, name: str | None, owner: str) -> Checkpoint:
    """Save the variables and the files of a sandbox, signed.

    Raises:
        SandboxError: when there is no Python to save, or it did not answer.
    """
    arriving = Arriving(session.spec)
    done = await session.ask_live({"type": "save", "max_bytes": arriving.max_bytes}, arriving, TIMEOUT_S)
    return await asyncio.to_thread(_seal, session, arriving, done, key, name, owner)


async def restore(session: Session, opened: Opened) -> CheckpointReport:
    """Give a fresh sandbox the state of a checkpoint. All that is in it runs inside only.

    Raises:
        SandboxError: when the Python ended on the way.
    """
    restoring, header = Restoring(), opened.header
    for part, pieces in opened.parts():
        done: Event = {}
        for left, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
            data = base64.b64encode(piece.data).decode("ascii")
            request = {"type": "load", "kind": part["kind"], "names": part["names"], "data": data}
            done = await session.ask_live(request | {"packed": piece.is_packed, "last": not left}, ignore, TIMEOUT_S)
        restoring.take(part, done)
    report = restoring.report()
    session.count, session.origin = header["count"], header["id"]
    session.restored = f"the state of checkpoint {header['id']} was restored{without(report)}"
    return report


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
            self._fail(f"the state is larger than {self.max_bytes:,} bytes")
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
            raise SandboxError(f"the state could not be saved: {self._failure or str(said)[:MAX_REASON]}")
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
        "parent": session.origin,
        "owner": owner,
        "created": time.time(),
        "engine": session.engine_name,
        "python": python if isinstance(python, str) and re.fullmatch(r"\d+\.\d+\.\d+", python) else "",
        "kernel": belljar_kernel.digest(),
        "packages": list(spec.environment.packages),
        "policy": spec.policy.packages if isinstance(spec.policy.packages, str) else list(spec.policy.packages),
        "limits": asdict(spec.limits),
        "count": session.count,
        "saved": [name for part, _ in parts for name in part["names"]],
        "skipped": _reasons(done.get("skipped")),
        "files_skipped": _reasons(done.get("files_skipped")),
    }
    data = seal(header, parts, key)
    session.origin = header["id"]
    return Checkpoint.of(header, data)


class Restoring:
    """Collects what became of each part of a checkpoint."""

    def __init__(self) -> None:
        self._loaded: list[str] = []
        self._skipped: dict[str, str] = {}
        self._files_skipped: dict[str, str] = {}

    def take(self, part: dict[str, Any], done: Event) -> None:
        """The answer to the last piece of a part."""
        error = done.get("error")
        if isinstance(error, dict):
            why = f"{error.get('name')}: {error.get('value')}"[:MAX_REASON]
            missing = dict.fromkeys(part["names"] or [part["kind"]], why)
        else:
            missing = _reasons(done.get("skipped"))
        self._loaded += [name for name in part["names"] if name not in missing]
        (self._files_skipped if part["kind"] == "files" else self._skipped).update(missing)

    def report(self) -> CheckpointReport:
        """Which names are there again."""
        return CheckpointReport(self._loaded, self._skipped, self._files_skipped)


def without(report: CheckpointReport) -> str:
    """What is not there again, by name."""
    missing = sorted(report.skipped)
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    return f", without {', '.join(missing[:10])}{more}" if missing else ""


def _texts(given: object) -> list[str]:
    rows = given[:MAX_NAMES] if isinstance(given, list) else []
    return [row[:MAX_REASON] for row in rows if isinstance(row, str)]


def _reasons(given: object) -> dict[str, str]:
    rows = list(given.items())[:MAX_NAMES] if isinstance(given, dict) else []
    return {name[:MAX_REASON]: why[:MAX_REASON] for name, why in rows if isinstance(why, str)}
