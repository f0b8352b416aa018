"""Names and redirects that lead where they should not: only the vetted address is connected to, on every hop."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

import pytest
from tests import probe
from tests.egress.world import Origin, Proxy, origin, proxy

pytestmark = pytest.mark.anyio


async def rebound(server: Origin, answers: list[list[str]]) -> tuple[Proxy, list[bytes]]:
    """What requests for example.test met, when its address changes with every lookup."""
    given = iter(answers)

    async def resolver(host: str, port: int) -> list[str]:
        proxied.lookups.append(host)
        return next(given)

    async with proxy([f"example.test:{server.port}"]) as proxied:
        probe.use_resolver(proxied.egress, resolver)
        request = f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode()
        return proxied, [await proxied.ask(request) for _ in answers]


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["169.254.169.254"], ["0.0.0.0"],
     ["fe80::1%lo"], ["64:ff9b::7f00:1"]],
)  # fmt: skip
async def test_e06_an_allowed_name_that_leads_inside_is_refused(addresses: list[str]) -> None:
    async with origin() as canary:
        proxied, (met,) = await rebound(canary, [addresses])
        assert met.startswith(b"HTTP/1.1 403 ")
        assert b"addresses that are not public are refused" in met
        assert (canary.visits, len(proxied.lookups), len(proxied.denials)) == (0, 1, 1)


async def test_e06_every_connection_is_vetted_anew_and_looked_up_once() -> None:
    async with origin() as server:
        network = [f"example.test:{server.port}", f"127.0.0.1:{server.port}"]
        async with proxy(network, {"example.test": ["127.0.0.1"]}) as proxied:
            request = f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode()
            assert (await proxied.ask(request)).endswith(b"hello")
            assert proxied.lookups == ["example.test"]

            async def rebinding(host: str, port: int) -> list[str]:
                return ["127.0.0.2"]

            probe.use_resolver(proxied.egress, rebinding)
            assert (await proxied.ask(request)).startswith(b"HTTP/1.1 403 ")
            assert server.visits == 1


async def test_e06_of_mixed_addresses_only_the_vetted_one_is_connected_to() -> None:
    async with origin() as server:
        network = [f"example.test:{server.port}", f"127.0.0.1:{server.port}"]
        names = {"example.test": ["127.0.0.2", "10.0.0.1", "127.0.0.1", "::1"]}
        async with proxy(network, names) as proxied:
            answer = await proxied.ask(f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode())
            assert answer.endswith(b"hello")
            assert [seen.address for seen in proxied.connections] == ["127.0.0.1"]


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with origin() as server:
        network = [f"example.test:{server.port}", f"127.0.0.0/8:{server.port}", f"[::1]:{server.port}"]
        names = {"example.test": ["::1", "127.0.0.3", "127.0.0.1"]}
        async with proxy(network, names) as proxied:
            answer = await proxied.ask(f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode())
            assert answer.endswith(b"hello")
            assert proxied.connections[0].address == "127.0.0.1"


async def test_e05_every_hop_of_a_redirect_is_checked() -> None:
    async with origin() as canary:
        for status in (301, 302, 303, 307, 308):
            hop = f"HTTP/1.1 {status} Moved\r\nLocation: http://127.0.0.1:{canary.port}/\r\nContent-Length: 0\r\n\r\n"
            async with origin(hop.encode()) as server:
                network = [f"example.test:{server.port}", f"127.0.0.1:{server.port}"]
                async with proxy(network, {"example.test": ["127.0.0.1"]}) as proxied:
                    handler = urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{proxied.port}"})
                    opener = urllib.request.build_opener(handler)
                    with pytest.raises(urllib.error.HTTPError, match=r"403.*was refused") as failure:
                        await asyncio.to_thread(opener.open, f"http://example.test:{server.port}/", None, 20)
                    failure.value.close()
                    assert [denial.target for denial in proxied.denials] == [f"127.0.0.1:{canary.port}"]
        assert canary.visits == 0
