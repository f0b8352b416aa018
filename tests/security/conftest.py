"""The loopback world that attacks on the way out happen in: names, the one server that is allowed, and a canary."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.loopback import Canary, Names, Web, names


@pytest.fixture(scope="module")
def known() -> Iterator[Names]:
    with names() as served:
        yield served


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    """The one server that may be reached, at an address of loopback that nobody else has."""
    served = Web("127.0.0.2")
    yield served
    served.close()


@pytest.fixture(scope="module")
def canary(web: Web) -> Iterator[Canary]:
    """On the same port of 127.0.0.1, where a mistake would lead."""
    made = Canary("127.0.0.1", web.port)
    yield made
    assert not made.heard
    made.close()
