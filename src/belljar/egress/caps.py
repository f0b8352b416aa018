"""How much of the network one sandbox may use: values, and the meter that counts against them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from belljar.egress.refusals import Refused
from belljar.errors import InvalidRequest


@dataclass(frozen=True)
class Caps:
    """Limits of one sandbox's network: counts and bytes for the sandbox, times and sizes for each connection."""

    connections: int = 256
    new_per_s: float = 500.0
    sent_bytes: int = 1 << 30
    received_bytes: int = 1 << 30
    total_s: float = 300.0
    idle_s: float = 60.0
    connect_s: float = 10.0
    head_s: float = 10.0
    head_bytes: int = 32 << 10

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise InvalidRequest(f"{field.name} must be more than 0, not {getattr(self, field.name)!r}")

    def slow_head(self) -> Refused:
        """What a guest is told that takes too long to say what it wants."""
        return Refused("a request", f"its head must be there within {self.head_s:g} s", "send it at once", status=408)


class Pace:
    """How fast new connections are taken: as many as may be open at once, then so many a second.

    Answering costs the host's processor time, not the sandbox's: a flood has to wait in its own queue.
    """

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._left: float = caps.connections
        self._then: float | None = None

    def delay(self, now: float) -> float:
        """One more was taken; seconds to wait before the next."""
        since = 0.0 if self._then is None else now - self._then
        self._left = min(self._caps.connections, self._left + since * self._caps.new_per_s) - 1
        self._then = now
        return max(0.0, -self._left / self._caps.new_per_s)


class Meter:
    """Bytes that one sandbox has moved, over all its connections."""

    def __init__(self, caps: Caps) -> None:
        self.caps = caps
        self.sent = 0
        self.received = 0

    def check(self, target: str) -> None:
        """Refuse a new connection when nothing could come of it."""
        self.send(target, 1, dry=True)
        self.receive(target, 1, dry=True)

    def send(self, target: str, count: int, dry: bool = False) -> None:
        """Count bytes on their way out, before they go."""
        if self.sent + count > self.caps.sent_bytes:
            raise _used_up(target, "send", self.caps.sent_bytes)
        self.sent += 0 if dry else count

    def receive(self, target: str, count: int, dry: bool = False) -> None:
        """Count bytes on their way in, before they are handed on."""
        if self.received + count > self.caps.received_bytes:
            raise _used_up(target, "receive", self.caps.received_bytes)
        self.received += 0 if dry else count


def _used_up(target: str, verb: str, cap: int) -> Refused:
    return Refused(target, f"a sandbox may {verb} {cap} bytes", "that is used up; a new sandbox starts from zero")
