"""Calls into the background loop: what ends them, and that whoever waits for one does not wait longer than it lasts."""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import threading
import time
from _thread import allocate_lock
from collections.abc import Iterator

import pytest

from belljar.background import BackgroundLoop

LONGEST_S = 5  # of the ten that a cancelled call is waited for


@pytest.fixture
def background() -> Iterator[BackgroundLoop]:
    background = BackgroundLoop()
    yield background
    background.stop()


async def answer(value: object) -> object:
    await asyncio.sleep(0)
    if isinstance(value, BaseException):
        raise value
    return value


def test_a_call_returns_what_the_coroutine_returns_or_raises_it(background: BackgroundLoop):
    assert background.wait(answer(2)) == 2
    for failure in (KeyError("no"), SystemExit(3)):
        with pytest.raises(type(failure)) as raised:
            background.wait(answer(failure))
        assert raised.value is failure
    assert background.wait(answer("still there")) == "still there"


def test_one_that_is_cancelled_there_is_told_here(background: BackgroundLoop):
    with pytest.raises(concurrent.futures.CancelledError):
        background.wait(answer(asyncio.CancelledError()))


def test_an_interrupt_cancels_it(background: BackgroundLoop):
    ended = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.set()

    began = time.monotonic()
    _interrupt_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        background.wait(forever())
    assert ended.is_set()
    assert time.monotonic() - began < LONGEST_S


def test_an_interrupt_before_it_has_begun_ends_it_all_the_same(background: BackgroundLoop):
    background.loop.call_soon_threadsafe(time.sleep, 1)
    began = time.monotonic()
    _interrupt_after(0.2)
    with pytest.raises(KeyboardInterrupt):
        background.wait(asyncio.sleep(1000))
    assert time.monotonic() - began < LONGEST_S
    assert background.wait(answer("free")) == "free"


def test_an_interrupt_when_it_is_over_waits_for_nothing(background: BackgroundLoop, monkeypatch: pytest.MonkeyPatch):
    class Late:
        """A lock whose owner is interrupted once he has it."""

        def __init__(self) -> None:
            self._lock = allocate_lock()
            self._taken = 0

        def acquire(self, timeout: float = -1) -> bool:
            got = self._lock.acquire(timeout=timeout)
            self._taken += 1
            if self._taken == 2:
                raise KeyboardInterrupt
            return got

        def release(self) -> None:
            self._lock.release()

    call = answer(1)
    began = time.monotonic()
    with monkeypatch.context() as patched:
        patched.setattr("belljar.background.threading.Lock", Late)
        with pytest.raises(KeyboardInterrupt):
            background.wait(call)
    assert time.monotonic() - began < LONGEST_S


def _interrupt_after(seconds: float) -> None:
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGINT)).start()
