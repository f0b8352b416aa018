"""Calls out of a run, from the code inside to the caller of the service and back."""

from __future__ import annotations

import time

import pytest
from tests.calls.conftest import IMPORTS, Caller

from belljar import InvalidRequest
from belljar.events import Call
from belljar.service.base import LIBRARY, Reply, RunRequest


def test_a_value_comes_back_as_it_was_given(caller: Caller):
    given = {"text": "é\ud800", "list": [1, -2.5, None, True], "nested": {"": {}}}
    ran = caller.run("print('before')\ncall('echo', _args)", args=(given,))
    assert (ran.status, ran.value, ran.stdout) == ("ok", given, "before\n"), ran.error
    (call,) = caller.calls
    assert (call["name"], call["args"]) == ("echo", given)
    (row,) = ran.tool_calls
    assert (row["call_id"], row["name"], row["status"]) == (call["call_id"], "echo", "ok")
    assert row["wall_s"] > 0


def test_an_error_is_raised_inside_with_its_name_and_text(caller: Caller):
    ran = caller.run("call('fail', {'name': 'KeyError', 'text': 'no such row'})")
    assert (ran.error.name, ran.error.value) == ("CallFailed", "KeyError: no such row")
    assert ran.error.line == IMPORTS.count("\n") + 1
    assert [row["status"] for row in ran.tool_calls] == ["error"]
    code = "try: call('fail', {'name': 'A', 'text': 'b'})\nexcept CallFailed as failed: said = failed.name, failed.text\nsaid"
    assert caller.run(code).value == ["A", "b"]


def test_awaited_calls_overlap_and_are_answered_in_any_order(caller: Caller):
    held: list[Call] = []

    def answer(call: Call) -> Reply | None:
        held.append(call)
        if len(held) == 8:
            for each in reversed(held[1:]):
                caller.later(each["call_id"], each["args"]["n"])
            return Reply(held[0]["call_id"], held[0]["args"]["n"])
        return None

    ran = caller.run("await asyncio.gather(*(call_async('hold', {'n': n}) for n in range(8)))", answer)
    assert ran.value == list(range(8)), ran.error


def test_other_coroutines_go_on_while_one_waits(caller: Caller):
    ran = caller.run(
        "ticks = []\n"
        "async def tick():\n"
        "    for n in range(3): ticks.append(n); await asyncio.sleep(0.01)\n"
        "    return await call_async('add', {'numbers': [1, 2]})\n"
        "await asyncio.gather(tick(), call_async('add', {'numbers': ticks})), ticks"
    )
    assert ran.value == [[3, 0], [0, 1, 2]], ran.error


def test_the_interrupt_of_a_caller_ends_the_wait_and_keeps_the_state(caller: Caller):
    caller.run("kept = 41")
    for wait in ("call('hold')", "await call_async('hold')"):
        running, _ = caller.held(wait)
        caller.wait(caller.service.interrupt(LIBRARY, caller.id))
        ran = running.result(30)
        assert (ran.status, ran.state) == ("cancelled", "kept")
        assert [row["status"] for row in ran.tool_calls] == ["unanswered"]
    assert caller.run("kept + call('add', {'numbers': [1]})").value == 42


def test_the_deadline_ends_the_wait_and_keeps_the_state(caller: Caller):
    caller.run("kept = 41")
    ran = caller.run("call('hold')", timeout_s=0.5)
    assert (ran.status, ran.state) == ("timeout", "kept")
    (row,) = ran.tool_calls
    assert row["status"] == "unanswered"
    assert row["wall_s"] >= 0.4
    assert caller.run("kept + call('add', {'numbers': [1]})").value == 42


def test_a_name_that_was_not_given_is_refused_with_those_that_were(caller: Caller):
    names = ["remove", "fetch.other", "add ", "", "x" * 1000]
    code = "def refused(name):\n    try: call(name)\n    except CallFailed as failed: return str(failed)\n"
    ran = caller.run(code + "[refused(name) for name in _args]", args=(names,))
    assert all("it was given: add, echo, fail, hold" in text for text in ran.value), ran.error
    assert caller.calls == []
    assert {row["status"] for row in ran.tool_calls} == {"error"}
    assert max(len(row["name"]) for row in ran.tool_calls) == 100


def test_more_open_calls_than_there_may_be_are_refused_and_the_others_answered(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    code = (
        "refused = []\n"
        "async def one(n):\n"
        "    try: return await call_async('hold', {'n': n})\n"
        "    except CallFailed as failed: refused.append(failed.text)\n"
        "    if len(refused) == 6: print('full', flush=True)\n"
        "await asyncio.gather(*(one(n) for n in range(70))), refused"
    )

    def answer_all(text: str) -> None:
        assert text == "full\n"
        for call in caller.calls:
            caller.later(call["call_id"], "answered")

    monkeypatch.setattr(caller, "on_text", answer_all)
    ran = caller.run(code, lambda _: None)
    assert len(caller.calls) == 64
    values, refused = ran.value
    assert values == ["answered"] * 64 + [None] * 6, ran.error
    assert ["64 calls are open" in text for text in refused] == [True] * 6


def test_arguments_that_are_too_large_are_refused(caller: Caller):
    ran = caller.run("call('echo', {'text': 'x' * (1 << 20)})")
    assert "at most 1,048,576 go out in one call" in ran.error.value
    assert caller.calls == []
    ran = caller.run("len(call('echo', {'text': 'x' * 1_000_000})['text'])")
    assert ran.value == 1_000_000, ran.error


def test_a_reply_to_an_unknown_call_is_dropped(caller: Caller):
    def answer(call: Call) -> Reply | None:
        for wrong in (0, -1, call["call_id"] + 1, call["call_id"] - 1, 10**30):
            caller.later(wrong, "wrong")
        return Reply(call["call_id"], "right")

    ran = caller.run("call('hold'), call('hold')", answer)
    assert ran.value == ["right", "right"]
    caller.answer(Reply(caller.calls[-1]["call_id"], "again"))
    assert caller.run("call('hold')", lambda call: Reply(call["call_id"], "next")).value == "next"


def test_a_late_reply_of_a_run_that_was_ended_answers_no_later_call(caller: Caller):
    caller.run("call('hold')", timeout_s=0.3)
    (late,) = caller.calls
    caller.wait(caller.service.reset(LIBRARY, caller.id))  # its Python counts its calls from one again

    def answer(call: Call) -> Reply | None:
        assert call["call_id"] != late["call_id"]
        caller.later(late["call_id"], "late")
        return Reply(call["call_id"], "in time")

    assert caller.run("call('hold')", answer).value == "in time"


@pytest.mark.parametrize(
    "reply",
    [{"value": object()}, {"value": float("nan")}, {"value": "x" * (1 << 20)}, {"error": ("one",)}, {"error": (1, 2)}],
    ids=["an object", "nan", "too large", "half an error", "an error without text"],
)
def test_a_reply_that_cannot_be_sent_is_the_callers_mistake_and_the_call_waits_on(caller: Caller, reply: dict):
    running, call = caller.held("call('hold')")
    with pytest.raises(InvalidRequest):
        caller.answer(Reply(call["call_id"], **reply))
    caller.answer(Reply(call["call_id"], "well"))
    assert running.result(30).value == "well"


def test_a_value_that_is_nested_too_deep_is_the_callers_mistake(caller: Caller):
    value: list = []
    for _ in range(100):
        value = [value]
    with pytest.raises(InvalidRequest, match="nested"):
        caller.answer(Reply(1, value))


def test_a_run_that_nobody_listens_to_has_its_calls_refused_at_once(caller: Caller):
    async def run() -> object:
        request = RunRequest("from belljar_kernel.calls import call\ncall('add', {'numbers': []})")
        return [item async for item in caller.service.run(LIBRARY, caller.id, request)][-1]

    began = time.monotonic()
    ran = caller.wait(run())
    assert time.monotonic() - began < 10
    assert "the caller of this run takes no calls" in ran.error.value
    assert [row["status"] for row in ran.tool_calls] == ["error"]


def test_a_sandbox_without_tools_can_call_nothing(engine: str):
    made = Caller(engine, ())
    try:
        assert "it was given: none" in made.run("call('add')").error.value
    finally:
        made.close()


@pytest.mark.parametrize("tools", [("a.b",), ("a b",), ("",), ("x" * 101,), (5,), ("fetch.open",), "add", [["a"]]])
def test_names_that_cannot_be_called_are_refused_when_the_sandbox_is_made(engine: str, tools):
    with pytest.raises(InvalidRequest, match="tools"):
        Caller(engine, tools)


def test_calls_of_threads_are_answered_in_any_order(native: Caller):
    held: list[Call] = []

    def answer(call: Call) -> Reply | None:
        held.append(call)
        for each in reversed(held[:-1]) if len(held) == 12 else ():
            native.later(each["call_id"], each["args"]["n"])
        return Reply(call["call_id"], call["args"]["n"]) if len(held) == 12 else None

    ran = native.run(
        "import threading\nfound = {}\n"
        "def ask(n): found[n] = call('hold', {'n': n})\n"
        "threads = [threading.Thread(target=ask, args=(n,)) for n in range(12)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\nfound == {n: n for n in range(12)}",
        answer,
    )
    assert ran.value is True, ran.error


def test_a_thread_that_is_left_behind_cannot_call_between_runs(native: Caller):
    native.run(
        "import os, threading, time\nfound = []\n"
        "def ask():\n"
        "    while not os.path.exists('now'): time.sleep(0.01)\n"
        "    try: call('add', {'numbers': []})\n"
        "    except RuntimeError as error: found.append(str(error))\n"
        "    os.rename('now', 'asked')\n"
        "thread = threading.Thread(target=ask)\nthread.start()"
    )
    assert native.calls == []
    native.between_runs("now", until="asked")
    ran = native.run("thread.join()\nfound")
    assert ran.value == ["a call out of the sandbox can only be made while a run is on"]
    assert native.calls == []


def test_a_fork_makes_calls_of_its_own(native: Caller):
    native.run("kept = 1")
    (fork,) = native.wait(native.service.fork(LIBRARY, native.id, 1))
    parent, native.id = native.id, fork.id
    try:
        ran = native.run("kept + call('add', {'numbers': [40]}), await call_async('add', {'numbers': [1]})")
        assert ran.value == [41, 1], ran.error
    finally:
        native.close()
        native.id = parent
    assert native.run("kept + call('add', {'numbers': [1]})").value == 2


CROWD = """
import threading
wrong = []
def blocking(tag):
    for n in range(30):
        if call("echo", {"n": [tag, n]}) != {"n": [tag, n]}: wrong.append((tag, n))
def awaiting(tag):
    async def one(n):
        if await call_async("echo", {"n": [tag, n]}) != {"n": [tag, n]}: wrong.append((tag, n))
    async def rounds():
        for _ in range(5): await asyncio.gather(*(one(n) for n in range(6)))
    asyncio.run(rounds())
threads = [threading.Thread(target=act, args=(tag,)) for tag, act in enumerate([blocking] * 8 + [awaiting] * 4)]
for thread in threads: thread.start()
blocking("main")
for thread in threads: thread.join()
wrong
"""


def test_a_crowd_of_threads_and_loops_gets_every_reply_where_it_belongs(native: Caller):
    ran = native.run(CROWD)
    assert (ran.status, ran.value) == ("ok", []), ran.error
    assert len(ran.tool_calls) == 8 * 30 + 4 * 30 + 30
    assert {row["status"] for row in ran.tool_calls} == {"ok"}


def test_threads_that_call_without_end_end_with_an_interrupted_run(native: Caller):
    code = (
        "import threading\n"
        "def ask():\n"
        "    while True: call('echo', {})\n"
        "def ask_until_it_fails():\n"
        "    try: ask()\n"
        "    except RuntimeError: pass\n"
        "threads = [threading.Thread(target=ask_until_it_fails) for _ in range(4)]\n"
        "for thread in threads: thread.start()\nask()"
    )
    for _ in range(5):
        ran = native.run(code, timeout_s=0.3)
        assert (ran.status, ran.state) == ("timeout", "kept"), ran.error
        ran = native.run("for thread in threads: thread.join()\ncall('add', {'numbers': [1]})")
        assert ran.value == 1, ran.error
