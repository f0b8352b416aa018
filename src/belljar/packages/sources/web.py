"""Two addresses that serve pinned files by Pyodide's own names: a configured mirror, and the CDN that Pyodide names.

No address is written here: the CDN's is read from the verified `pyodide.mjs`, so it can serve only after that is there.
"""

from __future__ import annotations

import http.client
import queue
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from belljar.packages.pins import Pin, Pins
from belljar.packages.progress import Progress
from belljar.packages.sources.base import NotSet, Unavailable, accept, megabytes, take_each

FIRST_ANSWER_S = 5.0
SILENCE_S = 20.0
SLOWEST = 20_000  # bytes per second, below which a transfer is given up


class Web:
    """Files below one address, which may depend on what was fetched before. Once unreachable, it is not asked again."""

    def __init__(self, name: str, address: Callable[[Path], str]) -> None:
        self.name = name
        self._address = address
        self._dead: str | None = None

    def fetch(self, wanted: Sequence[Pin], into: Path, progress: Progress) -> None:
        address = self._address(into)
        total, done = sum(pin.size for pin in wanted), 0

        def take(pin: Pin) -> None:
            if self._dead is not None:
                raise Unavailable(self._dead)

            def moved(count: int) -> None:
                nonlocal done
                done += count
                progress(f"Downloading {pin.name} ({megabytes(done)} of {megabytes(total)})", done / total)

            self._download(address, pin, into, moved)

        try:
            take_each(wanted, take)
        except Unavailable:
            if self._dead is not None:
                raise Unavailable(self._dead) from None
            raise

    def _download(self, address: str, pin: Pin, into: Path, moved: Callable[[int], None]) -> None:
        deadline = time.monotonic() + 60 + pin.size / SLOWEST

        def read(count: int) -> bytes:
            if time.monotonic() > deadline:
                raise TimeoutError("it sends too slowly")
            return response.read1(count)

        try:
            response = _opened(address + pin.name)
            with response:
                accept(pin, read, into, self.name, moved)
        except urllib.error.HTTPError as error:
            error.close()
            raise Unavailable(f"{pin.name}: the answer is {error.code}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            self._dead = f"it cannot be reached ({str(reason) or type(reason).__name__})"
            raise Unavailable(self._dead) from None


def mirror(address: str | None) -> Web:
    """A mirror that the operator set."""

    def known(_: Path) -> str:
        if address is None:
            raise NotSet("none is set (BELLJAR_PYODIDE_MIRROR)")
        return address.rstrip("/") + "/"

    return Web("the mirror", known)


def cdn(pins: Pins) -> Web:
    """Pyodide's own, by the address that its verified loader carries."""

    def known(into: Path) -> str:
        loader = into / "pyodide.mjs"
        if not loader.exists():
            raise NotSet("its address is in pyodide.mjs, which is not there yet")
        found = re.search(r"`(https://[^`$]+)\$\{\w+\}(/[^`$]*)`", loader.read_text("utf-8"))
        if found is None:
            raise Unavailable("pyodide.mjs names no address")
        return f"{found[1]}{pins.version}{found[2]}"

    return Web("Pyodide's CDN", known)


def _opened(address: str) -> http.client.HTTPResponse:
    """The answer to a GET. Looking up a name may hang longer than any timeout, so it is waited for from beside."""
    answers: queue.Queue[http.client.HTTPResponse | Exception] = queue.Queue()
    given_up = threading.Event()

    def ask() -> None:
        try:
            request = urllib.request.Request(address, headers={"User-Agent": "belljar"})
            answer = urllib.request.urlopen(request, timeout=SILENCE_S)
        except Exception as error:
            answers.put(error)
        else:
            if given_up.is_set():
                answer.close()
            answers.put(answer)

    threading.Thread(target=ask, name="belljar-download", daemon=True).start()
    try:
        answer = answers.get(timeout=FIRST_ANSWER_S)
    except queue.Empty:
        given_up.set()
        raise TimeoutError(f"no answer within {FIRST_ANSWER_S:.0f} s") from None
    if isinstance(answer, Exception):
        raise answer
    return answer
