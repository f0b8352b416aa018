"""The calls out of a run. All of them are hostile: each is checked and bounded before a caller hears of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from belljar import events
from belljar.engines.base import Event
from belljar.engines.transport.frames import BrokenProtocol
from belljar.execution import Execution
from belljar.service.base import Reply
from belljar_kernel.protocol import CALL_BYTES, CALL_NAME_CHARS, CALL_NUMBERS, MOST_CALLS, OPEN_CALLS

MOST_IGNORANT = 10_000  # calls beyond those: code that still makes calls does not heed errors
PER_SECOND, BURST = 2000, 2000  # those that come faster are passed on later
MOST_RECORDED = 1000  # in one Execution
KNOWN_CHARS = 400  # of the names that a refusal repeats
REFUSED = "CallRefused"

OnCall = Callable[[events.Call], None]


@dataclass
class _Open:
    """A call that waits for its reply: its number inside, and its row in the Execution."""

    number: int
    began: float
    row: dict[str, Any]


class Calls:
    """Takes the calls of a run. Callers get numbers of the host's own, which no two calls of a sandbox share."""

    def __init__(
        self,
        tools: tuple[str, ...],
        numbers: Iterator[int],
        execution: Execution,
        send: Callable[[dict[str, Any]], None],
        on_call: OnCall | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tools = tools
        self._numbers = numbers
        self._execution = execution
        self._send = send
        self._on_call = on_call
        self._clock = clock
        self._open: dict[int, _Open] = {}
        self._refused: set[int] = set()  # numbers inside, of calls whose refusal is not sent yet
        self._count = 0
        self._allowance, self._filled = float(BURST), clock()

    def take(self, event: Event) -> None:
        """A call from inside: pass it on, or reply with what is wrong with it.

        Raises:
            BrokenProtocol: when no kernel of ours would make it.
        """
        number, name, args = event["call_id"], event["name"], event["args"]
        if not 0 < number < CALL_NUMBERS:
            raise BrokenProtocol("a call whose number cannot be")
        if number in self._refused or any(each.number == number for each in self._open.values()):
            raise BrokenProtocol("two open calls with one number")
        call_id = next(self._numbers)
        row = self._row(call_id, name)
        problem = self._problem(name, args)
        if problem is not None:
            row["status"] = "error"
            self._refused.add(number)
            self._in_turn(self._refuse, number, problem)
            return
        self._open[call_id] = _Open(number, self._clock(), row)
        call: events.Call = {"type": "call", "call_id": call_id, "name": name, "args": args}
        self._in_turn(self._pass_on, call)

    def reply(self, reply: Reply) -> None:
        """Send the answer to an open call inside. A reply that no call waits for is dropped."""
        call = self._open.pop(reply.call_id, None)
        if call is None:
            return
        call.row["status"] = "ok" if reply.error is None else "error"
        call.row["wall_s"] = self._clock() - call.began
        answer: dict[str, Any] = {"type": "reply", "call_id": call.number}
        if reply.error is None:
            answer["value"] = reply.value
        else:
            answer["error"] = {"name": reply.error[0], "value": reply.error[1]}
        self._send(answer)

    def end(self) -> None:
        """The run has ended, and with it every call that is open."""
        for call in self._open.values():
            call.row["wall_s"] = self._clock() - call.began
        self._open.clear()
        self._refused.clear()

    def _problem(self, name: str, args: dict[str, Any]) -> str | None:
        """Why a call is refused, as its code inside reads it."""
        self._count += 1
        if self._count > MOST_CALLS + MOST_IGNORANT:
            raise BrokenProtocol(f"calls went on after {MOST_CALLS:,} in a run, and each was refused")
        if self._count > MOST_CALLS:
            return f"one run may make {MOST_CALLS:,} calls; make the others in another run"
        if name not in self._tools:
            given = f"{name[:CALL_NAME_CHARS]!r} is no call that this sandbox was given"
            return f"{given}; it was given: {_shortened(', '.join(self._tools)) or 'none'}"
        if self._on_call is None:
            return f"{name!r} has no answer, as the caller of this run takes no calls; run it with live=True"
        if len(self._open) >= OPEN_CALLS:
            return f"{OPEN_CALLS} calls are open, and there may be no more at once; await some first"
        size = len(json.dumps(args))
        if size > CALL_BYTES:
            return f"the arguments of {name!r} have {size:,} bytes as JSON; at most {CALL_BYTES:,} go out in one call"
        return None

    def _pass_on(self, call: events.Call) -> None:
        if self._on_call is not None and call["call_id"] in self._open:
            self._on_call(call)

    def _refuse(self, number: int, problem: str) -> None:
        if number in self._refused:
            self._refused.discard(number)
            self._send({"type": "reply", "call_id": number, "error": {"name": REFUSED, "value": problem}})

    def _in_turn(self, act: Callable[..., None], *args: object) -> None:
        """Do what a call leads to: now, or later when calls come too fast."""
        if delay := self._delay():
            asyncio.get_running_loop().call_later(delay, act, *args)
        else:
            act(*args)

    def _delay(self) -> float:
        """How long a call has to wait for its turn."""
        now = self._clock()
        self._allowance = min(BURST, self._allowance + (now - self._filled) * PER_SECOND) - 1
        self._filled = now
        return max(0.0, -self._allowance / PER_SECOND)

    def _row(self, call_id: int, name: str) -> dict[str, Any]:
        row: dict[str, Any] = {
            "call_id": call_id,
            "name": name[:CALL_NAME_CHARS],
            "status": "unanswered",
            "wall_s": 0.0,
        }
        if len(self._execution.tool_calls) < MOST_RECORDED:
            self._execution.tool_calls.append(row)
        return row


def _shortened(text: str) -> str:
    return text if len(text) <= KNOWN_CHARS else f"{text[:KNOWN_CHARS]} …"
