"""The way of a warm run through the host: the functions that ARCHITECTURE.md lists, and no more than twelve."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.pages import ROOT

from belljar import Sandbox
from belljar.engines.transport import exchange

SRC = ROOT / "src"
MOST = 12
WRITER = "belljar/engines/transport/link.py:Link._flush"  # called by the function that encodes, once it has a frame


def functions(frame: FrameType | None) -> list[str]:
    """The functions of Belljar on a stack, from the outside in."""
    found = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(SRC):
            found.append(f"{path.relative_to(SRC).as_posix()}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


def test_a_warm_run_takes_the_listed_functions(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch):
    walked: list[str] = []
    encode = exchange.encode

    def watched(message: dict[str, Any]) -> bytes:
        caller = sys._current_frames()[threading.main_thread().ident or 0]
        inside = [name for name in functions(sys._getframe(1)) if not name.endswith("BackgroundLoop._serve")]
        walked[:] = [*functions(caller), *inside, WRITER]
        return encode(message)

    sandbox.run("1+1")
    monkeypatch.setattr(exchange, "encode", watched)
    assert sandbox.run("1+1").text == "2"
    listed = re.findall(r"^(belljar/\S+\.py:\S+)", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), flags=re.MULTILINE)
    assert walked == listed
    assert len(walked) <= MOST
