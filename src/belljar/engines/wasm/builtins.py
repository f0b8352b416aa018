"""The calls that this engine answers itself, before any other is looked at. What is called is untrusted."""

from __future__ import annotations

from belljar.engines.base import Event
from belljar.engines.transport.frames import BrokenProtocol
from belljar.engines.wasm.fetches import Fetches
from belljar.engines.wasm.mounts import Mounts
from belljar_kernel.protocol import BUILTIN_CALLS, CALL_NUMBERS


def is_builtin(event: Event) -> bool:
    """Whether an Event is a call for this engine. No call for others has a dot in its name."""
    return event["type"] == "call" and event["name"] in BUILTIN_CALLS


class Builtins:
    """The calls of a Python: requests to the network, and looks at mounted folders when it has any."""

    def __init__(self, fetches: Fetches, mounts: Mounts | None) -> None:
        self._fetches = fetches
        self._mounts = mounts

    def take(self, event: Event) -> None:
        """One such call.

        Raises:
            BrokenProtocol: when no kernel of ours would make it.
        """
        kind, _, act = event["name"].partition(".")
        call_id, args = event["call_id"], event["args"]
        if not 0 < abs(call_id) < CALL_NUMBERS:
            raise BrokenProtocol("a call whose number cannot be")
        for name, types in BUILTIN_CALLS[event["name"]].items():
            if type(args.get(name)) not in types:
                raise BrokenProtocol(f"a call of {event['name']} whose {name} is not what it should be")
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
