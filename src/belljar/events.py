"""The events of a run as callers get them: typed, plain JSON data, already checked and capped by the host."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class Output(TypedDict):
    """Text that the code wrote to standard output or standard error."""

    type: Literal["stdout", "stderr"]
    text: str


class Shown(TypedDict):
    """A rich result: a Jupyter MIME bundle. `main` is true for the value of the last expression."""

    type: Literal["result"]
    data: dict[str, Any]
    metadata: dict[str, Any]
    main: bool


class Call(TypedDict):
    """A call out of the run: the code waits until `answer_call` gives a reply with this `call_id`."""

    type: Literal["call"]
    call_id: int
    name: str
    args: dict[str, Any]


Event = Output | Shown | Call
