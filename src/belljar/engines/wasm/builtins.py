"""The calls that this engine answers itself, before any other is looked at. What is called is untrusted."""

from __future__ import annotations

from belljar.engines.base import Event
from belljar.engines.transport.frames import BrokenProtocol
from belljar.engines.wasm.fetches import FETCH_STEPS, Fetches
from belljar.engines.wasm.mounts import MOUNT_ACTS, Mounts

BUILTINS = frozenset({*(f"fetch.{step}" for step in FETCH_STEPS), *(f"mount.{act}" for act in MOUNT_ACTS)})
HIGHEST = 1 << 53


def is_builtin(event: Event) -> bool:
    """Whether an Event is a call for this engine. No call for others has a dot in its name."""
    name = event.get("name")
    return event["type"] == "call" and isinstance(name, str) and name in BUILTINS


class Builtins:
    """The calls of one Python: requests to the network, and looks at mounted folders when it has any."""

    def __init__(self, fetches: Fetches, mounts: Mounts | None) -> None:
        self._fetches = fetches
        self._mounts = mounts

    def take(self, event: Event) -> None:
        """One such call.

        Raises:
            BrokenProtocol: when no kernel of ours would make it.
        """
        kind, _, act = event["name"].partition(".")
        call_id, args = event.get("call_id"), event.get("args")
        if type(call_id) is not int or not 0 < abs(call_id) < HIGHEST or not isinstance(args, dict):
            raise BrokenProtocol(f"a call of {event['name']} without a number or arguments")
        if kind == "fetch":
            self._fetches.take(act, call_id, args)
        elif self._mounts is not None:
            self._mounts.take(act, call_id, args)
        else:
            raise BrokenProtocol("a call about mounts where there are none")

    def end(self) -> None:
        """Leave everything: the Python is gone."""
        self._fetches.end()
        if self._mounts is not None:
            self._mounts.end()
