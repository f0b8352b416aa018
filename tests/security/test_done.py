"""The last Event of a Request, as the host takes it: fields that are there have the types that the protocol says."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

import pytest

from belljar.engines.base import ignore
from belljar.engines.transport.exchange import Exchange
from belljar_kernel.answer import failure
from belljar_kernel.protocol import DONE

EXAMPLES: dict[type, Any] = {str: "text", int: 1, bool: True, list: [], dict: {}, type(None): None}
TYPED = [(kind, name) for kind, fields in DONE.items() for name, types in fields.items() if types]


def taken(kind: str, fields: dict[str, Any]) -> str | None:
    """How a kernel broke the protocol whose `done` for such a Request has these fields."""

    async def take() -> str | None:
        exchange = Exchange()
        answer = exchange.ask({"type": kind}, ignore)
        body = json.dumps({"type": "done", "id": 1, **fields}).encode()
        exchange.take(struct.pack(">I", len(body)) + body)
        assert answer.done()
        return exchange.broken

    return asyncio.run(take())


@pytest.mark.parametrize(("kind", "name"), TYPED)
def test_a_field_of_another_type_breaks_the_protocol(kind: str, name: str):
    types = DONE[kind][name]
    for each, example in EXAMPLES.items():
        broken = taken(kind, {name: example})
        if each in types:
            assert broken is None
        else:
            assert broken is not None
            assert f"an event done whose {name} is not what it should be" in broken


@pytest.mark.parametrize("kind", DONE)
def test_the_answer_to_a_request_that_failed_is_taken(kind: str):
    assert taken(kind, {}) is None
    assert taken(kind, {"failure": "missing"}) is None
    assert taken(kind, failure("ValueError", "no")) is None
