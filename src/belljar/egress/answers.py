"""What a guest reads instead of a response: the whole story in the status line, as most clients show nothing else."""

from __future__ import annotations

from belljar.egress.refusals import Refused, Unreachable, plain

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


def answer(problem: Refused | Unreachable) -> bytes:
    """A whole HTTP response; the connection ends with it."""
    text = plain(str(problem), 1500)
    lines = [
        f"HTTP/1.1 {problem.status} {plain(text, 900)}",
        "Content-Type: text/plain; charset=us-ascii",
        f"Content-Length: {len(text) + 1}",
        "Connection: close",
    ]
    if isinstance(problem, Refused):
        lines += [
            f"Belljar-Denied: {problem.target}",
            f"Belljar-Rule: {problem.rule}",
            f"Belljar-Hint: {problem.hint}",
        ]
    else:
        lines.append("Belljar-Unreachable: yes")
    return ("\r\n".join(lines) + "\r\n\r\n" + text + "\n").encode("ascii")
