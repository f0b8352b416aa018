"""Every act of the contract, as another owner or the right one may try it, and what comes of it as comparable data."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from belljar.service.base import Reply, RunRequest, Service

Act = Callable[[Service, str, str], Awaitable[Any]]  # of a service, an owner and an id


async def every(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


# What may be done to a sandbox by its id.
BY_ID: dict[str, Act] = {
    "get": lambda service, owner, name: service.get(owner, name),
    "close": lambda service, owner, name: service.close(owner, name),
    "wake": lambda service, owner, name: service.wake(owner, name),
    "hibernate": lambda service, owner, name: service.hibernate(owner, name),
    "run": lambda service, owner, name: every(service.run(owner, name, RunRequest("x = 'changed'"))),
    "answer_call": lambda service, owner, name: service.answer_call(owner, name, Reply(1, "answered")),
    "interrupt": lambda service, owner, name: service.interrupt(owner, name),
    "reset": lambda service, owner, name: service.reset(owner, name),
    "install": lambda service, owner, name: service.install(owner, name, ()),
    "complete": lambda service, owner, name: service.complete(owner, name, "x", 1),
    "variables": lambda service, owner, name: service.variables(owner, name),
    "write_file": lambda service, owner, name: service.write_file(owner, name, "kept.txt", b"changed"),
    "read_file": lambda service, owner, name: every(service.read_file(owner, name, "kept.txt")),
    "list_files": lambda service, owner, name: service.list_files(owner, name),
    "delete_file": lambda service, owner, name: service.delete_file(owner, name, "kept.txt"),
    "checkpoint": lambda service, owner, name: service.checkpoint(owner, name),
    "fork": lambda service, owner, name: service.fork(owner, name, 1),
}
# What names no sandbox that is there: each has a test of its own.
WITHOUT_ID = {"create", "list", "restore", "health"}


def of_the_contract() -> dict[str, bool]:
    """The acts of the contract, and whether each is on a sandbox that it names by its id."""
    acts = {name: act for name, act in vars(Service).items() if inspect.isfunction(act) and not name.startswith("_")}
    return {name: "id" in inspect.signature(act).parameters for name, act in acts.items()}


async def outcome(act: Act, service: Service, owner: str, id: str) -> tuple[str, str]:
    """What an act returned, or the class and the text of what it raised."""
    try:
        return "returned", repr(await act(service, owner, id))
    except Exception as failure:
        return type(failure).__name__, str(failure)
