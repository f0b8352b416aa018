"""One question to the user's package index: is there such a distribution, and a build that this engine could import?

pip reads one page and downloads nothing. Answers are remembered while the process lives; silence only for a minute.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from belljar.errors import PackageError
from belljar.packages import pip
from belljar.packages.target import Target

LONGEST_S = 8.0
SILENCE_S = 60.0
MOST_REMEMBERED = 1000
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,98}[a-z0-9])?")


@dataclass(frozen=True)
class Answer:
    """What the index said about one name."""

    kind: Literal["missing", "no_build", "usable", "unreachable"]
    reason: str = ""


# Of the process and not of a host: what an index has depends on the pip configuration of this user alone.
_known: dict[tuple[str, str], Answer] = {}
_last_silence, _silent_until = Answer("unreachable"), 0.0
_one_at_a_time = threading.Lock()


def ask(distribution: str, target: Target, anew: bool = False) -> Answer:
    """Ask the index, or remember unless it is to be asked anew; from any thread, for at most a few seconds."""
    if not NAME.fullmatch(distribution):
        return Answer("missing", "that is no name for a package")
    if anew:
        _known.pop((distribution, target.engine), None)
    if found := _known.get((distribution, target.engine)):
        return found
    if silent := silence():
        return silent
    if not _one_at_a_time.acquire(timeout=LONGEST_S):
        return Answer("unreachable", "other questions to it are still waiting")
    try:
        if found := _known.get((distribution, target.engine)):
            return found
        answer = _ask(distribution, target)
        if answer.kind == "unreachable":
            note_silence(answer.reason)
        else:
            if len(_known) >= MOST_REMEMBERED:
                _known.clear()
            _known[distribution, target.engine] = answer
        return answer
    finally:
        _one_at_a_time.release()


def silence() -> Answer | None:
    """That the index could not be reached a moment ago, and why."""
    return _last_silence if time.monotonic() < _silent_until else None


def note_silence(reason: str) -> None:
    """Let nobody wait for the index again for a while who did not ask for that."""
    global _last_silence, _silent_until
    _last_silence, _silent_until = Answer("unreachable", reason), time.monotonic() + SILENCE_S


def forget() -> None:
    """Ask anew from now on."""
    global _silent_until
    _known.clear()
    _silent_until = 0.0


def _ask(distribution: str, target: Target) -> Answer:
    with tempfile.TemporaryDirectory(prefix="belljar-lookup-") as scratch:
        try:
            said = _pip_says(distribution, target, Path(scratch))
        except PackageError as error:
            return Answer("unreachable", str(error))
        except subprocess.TimeoutExpired:
            return Answer("unreachable", f"no answer within {LONGEST_S:.0f} s")
    return understood(said)


def _pip_says(distribution: str, target: Target, scratch: Path) -> str:
    argv = [
        *pip.command(), "index", "versions", "-vv", "--no-input", "--no-cache-dir", "--disable-pip-version-check",
        "--no-color", "--timeout", "4", "--retries", "0", *target.pip_options, "--", distribution,
    ]  # fmt: skip
    log = scratch / "pip.log"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=scratch, env=pip.environment(scratch),
            start_new_session=True,
        )  # fmt: skip
    try:
        process.wait(LONGEST_S)
    finally:
        pip.end(process)
    return log.read_text("utf-8", "replace")


def understood(said: str) -> Answer:
    """What pip's account of the pages it read amounts to."""
    if re.search(r"^\s*Found link \S+?\.whl(?:[#\s]|$)", said, re.MULTILINE):
        return Answer("usable")
    if re.search(r"^\s*(?:Found link|Skipping link: (?!not a file|wrong project name))", said, re.MULTILINE):
        return Answer("no_build")
    failures = re.findall(r"^\s*Could not fetch URL \S+ (.+?)(?: - skipping)?$", said, re.MULTILINE)
    serious = [text for text in failures if not re.match(r"4(?:04|10)\b", text)]
    if serious:
        return Answer("unreachable", _in_short(serious[0]))
    if re.search(r"^\s*0 location\(s\)", said, re.MULTILINE) and "ignored" not in said:
        return Answer("unreachable", "pip is set up for no index")
    if "No matching distribution found" in said:
        return Answer("missing")
    return Answer("unreachable", pip.complaint(said))


def _in_short(failure: str) -> str:
    """The end of a long account of a failed connection, without objects and addresses in memory."""
    found = re.search(
        r"(\[Errno -?\d+\] [^'\")]+|timed out|\d{3} \w+ Error: [^:]+?(?= for url)|[Cc]ertificate[^'\")]+)", failure
    )
    return found[1].strip() if found else failure[:120]
