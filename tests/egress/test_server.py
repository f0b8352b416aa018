"""The proxy as a whole: every way in, failures that stay where they are, and an end that ends everything."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from typing import Any

import pytest
from tests import probe
from tests.egress.world import PATIENCE_S, allowed, eventually, origin, proxy, read_all, wait

from belljar import InvalidRequest, SandboxClosed
from belljar.egress.resolver import SystemResolver
from belljar.egress.server import Egress

pytestmark = pytest.mark.anyio


# Opens a listener on the loopback of its own network and hands it out, as a sandbox's keeper does; then it is the guest.
INSIDE = """
import fcntl, socket, struct, sys
link, port = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # loopback up
listener = socket.create_server(("127.0.0.1", 0))
socket.send_fds(link, [b"."], [listener.fileno()])
link.recv(1)
try:
    socket.create_connection(("127.0.0.1", port), 5)
except OSError:
    print("direct: refused")
def ask(target):
    with socket.create_connection(listener.getsockname(), 20) as proxy:
        proxy.sendall(f"GET http://{target}/ HTTP/1.0\\r\\n\\r\\n".encode())
        return b"".join(iter(lambda: proxy.recv(65536), b"")).decode()
print("proxy:", ask(f"127.0.0.1:{port}").rpartition("\\n")[2])
print("other:", ask("127.0.0.1:22").split()[1])
"""


def get(port: int) -> bytes:
    return f"GET http://127.0.0.1:{port}/ HTTP/1.0\r\n\r\n".encode()


def test_a_wrong_entry_is_refused_when_the_proxy_is_made() -> None:
    with pytest.raises(InvalidRequest, match="star"):
        Egress(["*"])


async def test_guests_come_over_an_inherited_descriptor() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    descriptor = listener.detach()
    async with origin() as server:
        async with Egress([f"127.0.0.1:{server.port}"]) as egress:
            egress.listen(descriptor)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(get(server.port))
            assert (await read_all(reader)).endswith(b"hello")
            writer.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


async def test_guests_come_from_another_network_namespace() -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare makes the namespace, and it is not here")
    async with origin() as server, Egress([f"127.0.0.1:{server.port}"]) as egress:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(PATIENCE_S)
            command = [unshare, "--user", "--map-root-user", "--net", sys.executable, "-c", INSIDE]
            pipe = asyncio.subprocess.PIPE
            guest = await asyncio.create_subprocess_exec(
                *command, str(theirs.fileno()), str(server.port), pass_fds=[theirs.fileno()], stdout=pipe, stderr=pipe
            )
            theirs.close()
            _, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 1, 1)
            if not descriptors:
                pytest.skip(f"no network namespace here: {(await guest.communicate())[1].decode()}")
            egress.listen(descriptors[0])
            ours.sendall(b".")
            output, errors = await wait(guest.communicate())
        assert (output.decode().splitlines(), errors) == (["direct: refused", "proxy: hello", "other: 403"], b"")
        assert server.visits == 1


async def test_guests_come_over_connections_that_were_accepted_elsewhere() -> None:
    async with origin() as server, Egress([f"127.0.0.1:{server.port}"]) as egress:
        ours, theirs = socket.socketpair()
        egress.serve(theirs)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        writer.write(get(server.port))
        assert (await read_all(reader)).endswith(b"hello")
        writer.close()


async def test_an_error_in_one_connection_is_told_and_ends_nothing_else() -> None:
    async def broken(host: str, port: int) -> list[str]:
        raise RuntimeError("a bug")

    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with origin() as server, allowed(server) as proxied:
        resolver = probe.use_resolver(proxied.egress, broken)
        request = f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode()
        assert await proxied.ask(request) == b""
        assert [str(context["exception"]) for context in told] == ["a bug"]
        probe.use_resolver(proxied.egress, resolver)
        assert (await proxied.ask(request)).endswith(b"hello")


async def test_a_listener_that_fails_is_told_and_ends_nothing() -> None:
    def fails(_: object) -> None:
        raise RuntimeError("a listener's bug")

    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with origin() as server, allowed(server) as proxied:
        probe.use_denial_listener(proxied.egress, fails)
        assert (await proxied.ask(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 403 ")
        request = f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode()
        assert (await proxied.ask(request)).endswith(b"hello")
        await eventually(lambda: len(told) == 1)


async def test_close_ends_listeners_tunnels_and_what_is_on_its_way() -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.append(True)

    ended: list[bool] = []
    async with origin(silence) as server, allowed(server) as proxied:
        tunnels = [await proxied.tunnel("example.test", server.port) for _ in range(5)]
        half, half_writer = await proxied.open()
        half_writer.write(b"CONNECT exam")
        await eventually(lambda: proxied.gate.open == 6)
        await wait(proxied.egress.close())
        assert proxied.gate.open == 0
        for reader, writer in [*tunnels, (half, half_writer)]:
            assert await read_all(reader) == b""
            writer.close()
        await eventually(lambda: len(ended) + len(proxied.connections) >= 5)
        with pytest.raises(OSError):
            await proxied.open()
        ours, theirs = socket.socketpair()
        with ours, pytest.raises(SandboxClosed):
            proxied.egress.serve(theirs)
        await wait(proxied.egress.close())


async def test_a_connection_is_closed_even_when_the_proxy_ends_before_it_began() -> None:
    egress = Egress([])
    ours, theirs = socket.socketpair()
    egress.serve(theirs)
    await egress.close()
    ours.settimeout(PATIENCE_S)
    with ours:
        assert ours.recv(1) == b""


async def test_two_sandboxes_share_nothing() -> None:
    async with origin() as server, proxy([f"127.0.0.1:{server.port}"]) as one, proxy([]) as other:
        assert (await one.ask(get(server.port))).endswith(b"hello")
        assert (await other.ask(get(server.port))).startswith(b"HTTP/1.1 403 ")
        assert (len(one.denials), len(other.denials)) == (0, 1)


async def test_the_machines_own_resolver_knows_this_machine() -> None:
    assert set(await wait(SystemResolver()("localhost", 80))) <= {"127.0.0.1", "::1"}
    with pytest.raises(OSError):
        await wait(SystemResolver()("a" * 300, 80))


async def test_no_descriptor_is_left_behind() -> None:
    async with origin() as server:
        before = len(os.listdir("/proc/self/fd"))
        async with allowed(server) as proxied:
            for _ in range(20):
                await proxied.ask(f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode())
                await proxied.ask(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
                await proxied.ask(b"\x05\x01\x02")
                _, writer = await proxied.tunnel("example.test", server.port)
                writer.transport.abort()
        await asyncio.sleep(0.1)
        assert len(os.listdir("/proc/self/fd")) <= before + 1


async def test_one_listener_can_be_left_while_its_connections_go_on():
    async with origin() as server, allowed(server) as proxied:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        leave = proxied.egress.listen(listener)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await eventually(lambda: proxied.gate.open == 1)
        leave()
        await eventually(lambda: listener.fileno() < 0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode())
        assert (await read_all(reader)).endswith(b"hello")
        writer.close()
