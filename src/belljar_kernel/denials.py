"""What the inside knows that it may not reach: said in one form to the code, and told to the host as an Event."""

from __future__ import annotations

from belljar_kernel.protocol import DENIALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OFF = "network is off"
NO_HOSTS = "allow hosts with Policy(network=[...])"
_SHOWN = 20


def refusal(target: str, rule: str, hint: str) -> str:
    """A refusal in words, the same wherever it happened."""
    return f"{target} was refused: {rule}; {hint}"


class Denials:
    """Of one kernel. The walls are elsewhere: these are the words."""

    def __init__(self, send: Callable[[str, dict[str, Any]], None]) -> None:
        self.hosts: list[str] = []  # those that Policy.network lists
        self._send = send
        self._left = DENIALS

    def begin(self) -> None:
        """A run begins."""
        self._left = DENIALS

    def tell(self, target: str, rule: str, hint: str) -> str:
        """Report a refusal, and return it as text for an exception; never raises."""
        target = target[:300]
        if self._left > 0:
            self._left -= 1
            try:
                self._send("denial", {"kind": "network", "target": target, "rule": rule, "hint": hint})
            except Exception:
                pass  # in a process that the code forked: it only has the exception
        return refusal(target, rule, hint)

    def refuse(self, target: str, rule: str) -> str:
        """Tell it by a rule that holds while some hosts are allowed; where none is, that is the reason."""
        return self.tell(target, rule if self.hosts else OFF, self.allowed)

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        if not self.hosts:
            return NO_HOSTS
        more = f" and {len(self.hosts) - _SHOWN} more" if len(self.hosts) > _SHOWN else ""
        return "allowed: " + ", ".join(self.hosts[:_SHOWN]) + more
