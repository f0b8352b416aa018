"""What the proxy answers instead of a connection: refused by a rule, or unreachable."""

from __future__ import annotations

from belljar.execution import Denial
from belljar_kernel.denials import refusal

_LONGEST = 600


class Refused(Exception):
    """A rule forbids it. Says which rule, and what would be allowed."""

    def __init__(self, target: str, rule: str, hint: str, status: int = 403) -> None:
        self.target, self.rule, self.hint, self.status = plain(target, 300), plain(rule), plain(hint), status
        super().__init__(refusal(self.target, self.rule, self.hint))

    def denial(self) -> Denial:
        """The refusal as an Execution reports it."""
        return Denial("network", self.target, self.rule, self.hint, "egress")


class Unreachable(Exception):
    """It is allowed, but nobody answered."""

    def __init__(self, message: str, status: int = 502) -> None:
        super().__init__(plain(message))
        self.status = status


class Untrusted(Unreachable):
    """It answers, but with a certificate that cannot be trusted."""


def plain(text: str, longest: int = _LONGEST) -> str:
    """Printable ASCII on one line: what a guest wrote goes into headers, logs and terminals."""
    shown = "".join(char if " " <= char <= "~" else "?" for char in text[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."
