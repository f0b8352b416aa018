"""Calls that code forges on the channel itself, past the kernel: they end that Python at most."""

from __future__ import annotations

import pytest
from tests.calls.conftest import Caller

from belljar.attacks import forgery, protocol
from belljar.service.base import Reply

PREPARE = {
    "native": "import os, struct, sys, time\n",
    "wasm": "import json, os, struct, sys, time\nfrom pyodide.code import run_js as script\n",
}
SPEAK = {"native": protocol.SPEAK, "wasm": forgery.SPEAK}
BROKEN = [
    "event('call', name='add', args={})",
    "event('call', call_id='1', name='add', args={})",
    "event('call', call_id=True, name='add', args={})",
    "event('call', call_id=0, name='add', args={})",
    "event('call', call_id=-5, name='add', args={})",
    "event('call', call_id=10**30, name='add', args={})",
    "event('call', call_id=901, name=['add'], args={})",
    "event('call', call_id=901, name='add', args=[1])",
    "event('call', call_id=901, name='add')",
    "for _ in range(2): event('call', call_id=901, name='hold', args={})",
    "frame({'type': 'call', 'id': open_id + 1, 'call_id': 901, 'name': 'add', 'args': {}})",
    "frame({'type': 'call', 'id': 0, 'call_id': 901, 'name': 'add', 'args': {}})",
    "frame({'type': 'reply', 'id': open_id, 'call_id': 1, 'value': 1})",
    "x = []\nfor _ in range(150): x = [x]\nevent('call', call_id=901, name='add', args={'x': x})",
]


@pytest.mark.parametrize("code", BROKEN)
def test_a_call_that_no_kernel_of_ours_makes_ends_that_python_and_nothing_else(caller: Caller, code: str):
    ran = caller.run(f"{PREPARE[caller.engine]}{SPEAK[caller.engine]}{code}\ntime.sleep(5)")
    assert (ran.status, ran.state) == ("crashed", "reset"), ran.error
    assert caller.run("call('add', {'numbers': [40, 2]})").value == 42


def test_a_forged_call_is_one_like_any_other_and_its_reply_is_for_nobody(caller: Caller):
    code = "event('call', call_id=900001, name='add', args={'numbers': [1]})\ntime.sleep(0.3)\ncall('add', {'numbers': [2]})"
    ran = caller.run(f"{PREPARE[caller.engine]}{SPEAK[caller.engine]}{code}")
    assert (ran.status, ran.value) == ("ok", 2), ran.error
    assert [row["status"] for row in ran.tool_calls] == ["ok", "ok"]


def test_code_that_asks_without_end_and_reads_no_reply_loses_its_python(native: Caller):
    code = "n = 0\nwhile True:\n    n += 1\n    event('call', call_id=900_000 + n, name='add', args={})\n    time.sleep(0.001)"
    ran = native.run(
        f"{PREPARE['native']}{SPEAK['native']}{code}",
        lambda call: Reply(call["call_id"], "x" * 1_000_000),
        timeout_s=60,
    )
    assert (ran.status, ran.state) == ("crashed", "reset"), ran.error
    assert ran.error is not None
    assert "wait to be read" in ran.error.value
    assert native.run("call('add', {'numbers': [40, 2]})").value == 42


def test_native_code_has_no_calls_of_another_engine(native: Caller):
    code = "def refused(name):\n    try: call(name)\n    except CallFailed as failed: return str(failed)\n"
    said = native.run(code + "[refused(name) for name in ('fetch.open', 'mount.look')]").value
    assert all("no call that this sandbox was given" in text for text in said)


@pytest.mark.wasm
def test_calls_that_only_file_systems_make_end_a_python_without_mounts():
    made = Caller("wasm")
    try:
        ran = made.run("call('mount.look', {'mount': 0, 'path': ''})")
        assert (ran.status, ran.state) == ("crashed", "reset")
        assert made.run("call('add', {'numbers': [1]})").value == 1
    finally:
        made.close()
