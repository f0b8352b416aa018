"""The network of native sandboxes: real clients, through the proxy, without knowing it; and what they are told."""

from __future__ import annotations

import os
import signal
import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tests import probe
from tests.loopback import Names, Web, certificate_in, names
from tests.native.keepers import keeper_of
from tests.reliability import traces
from tests.shop import Shop, wheel

from belljar import Execution, InvalidRequest, PackageError, Policy, Sandbox, compose
from belljar.compose import LocalHost
from belljar.engines.native.engine import NativeEngine
from belljar.engines.native.route import variables
from belljar.settings import Settings

# `CLIENTS` in the sandbox: what each client makes of a URL, in one form.
CLIENTS = """
import asyncio, http.client, ssl, time, urllib.request
import httpx, requests, urllib3
from urllib.parse import urlsplit
TRUST = "/workspace/certificate.pem"
def by_http_client(url):
    parts = urlsplit(url)
    context = ssl.create_default_context(cafile=TRUST)
    made = http.client.HTTPSConnection(parts.netloc, context=context) if parts.scheme == "https" else \\
        http.client.HTTPConnection(parts.netloc)
    made.request("GET", parts.path)
    return made.getresponse().read().decode()
async def by_async_httpx(url):
    async with httpx.AsyncClient(verify=ssl.create_default_context(cafile=TRUST), follow_redirects=True) as client:
        return (await client.get(url)).text
CLIENTS = {
    "urllib": lambda url: urllib.request.urlopen(url, context=ssl.create_default_context(cafile=TRUST)).read().decode(),
    "http.client": by_http_client,
    "requests": lambda url: requests.get(url, verify=TRUST).text,
    "urllib3": lambda url: urllib3.PoolManager(ca_certs=TRUST).request("GET", url).data.decode(),
    "httpx": lambda url: httpx.get(url, verify=ssl.create_default_context(cafile=TRUST), follow_redirects=True).text,
    "async httpx": lambda url: asyncio.run(by_async_httpx(url)),
}
def all_of_them(url):
    found = {}
    for name, get in CLIENTS.items():
        started = time.perf_counter()
        try: found[name] = get(url)
        except Exception as failure: found[name] = "%s: %s" % (type(failure).__name__, failure)
        took = time.perf_counter() - started
        if took > 2: found[name] = "after %s s: %s" % (took, found[name])
    return found
"""
AIOHTTP = """
import aiohttp
async def by_aiohttp(url):
    async with aiohttp.ClientSession() as session:
        async with session.get(url, ssl=ssl.create_default_context(cafile=TRUST)) as response:
            return await response.text()
def said_to_aiohttp(url):
    try: return asyncio.run(by_aiohttp(url))
    except Exception as failure: return str(failure)
[said_to_aiohttp(url) for url in _args]
"""
ALL = ("urllib", "http.client", "requests", "urllib3", "httpx", "async httpx")


@pytest.fixture(scope="module")
def known() -> Iterator[Names]:
    with names() as served:
        served.known = {"example.test": ["127.0.0.1"], "private.test": ["10.0.0.1"], "index.test": ["127.0.0.1"]}
        yield served


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    served = Web()
    served.redirect("/in", 302, "/there")
    served.redirect("/out", 302, "http://evil.test/")
    yield served
    served.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate_in(tmp_path_factory.mktemp("tls"), "example.test")


@pytest.fixture(scope="module")
def secure(certificate: Path) -> Iterator[Web]:
    served = Web(certificate=certificate)
    yield served
    served.close()


@pytest.fixture(scope="module")
def connected(native: None, known: Names, web: Web, secure: Web, certificate: Path) -> Iterator[Sandbox]:
    """A sandbox that may reach example.test, which is on loopback, on the ports of two servers."""
    listed = [f"{host}:{port}" for host in ("example.test", "127.0.0.1") for port in (web.port, secure.port)]
    files = {"certificate.pem": (certificate.parent / "certificate.pem").read_bytes()}
    with Sandbox("native", policy=Policy(network=[*listed, "private.test", "nowhere.test"]), files=files) as made:
        made.run(CLIENTS).raise_for_status()
        yield made


@pytest.fixture(scope="module")
def offline(native: None, certificate: Path) -> Iterator[Sandbox]:
    """A sandbox as it is by default."""
    files = {"certificate.pem": (certificate.parent / "certificate.pem").read_bytes()}
    with Sandbox("native", files=files) as made:
        made.run(CLIENTS).raise_for_status()
        yield made


def asked(sandbox: Sandbox, url: str) -> dict[str, str]:
    return dict(sandbox.run(f"all_of_them({url!r})").raise_for_status().value)


def told(execution: Execution) -> list[dict[str, str]]:
    return [asdict(denial) for denial in execution.denials]


def test_every_client_reaches_a_listed_host_without_knowing_of_the_proxy(connected: Sandbox, web: Web, secure: Web):
    plain = asked(connected, f"http://example.test:{web.port}/a")
    encrypted = asked(connected, f"https://example.test:{secure.port}/a")
    assert set(plain) == {*ALL}
    assert plain == encrypted == dict.fromkeys(plain, "hello /a")


def test_aiohttp_is_a_client_like_the_others(connected: Sandbox, web: Web, secure: Web):
    try:
        connected.install("aiohttp")
    except PackageError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(f"aiohttp, which is not preinstalled, cannot be had: {missing}")
    urls = [f"http://example.test:{web.port}/a", f"https://example.test:{secure.port}/a", "https://evil.test/"]
    plain, encrypted, refused = connected.run(AIOHTTP, args=urls).raise_for_status().value
    assert plain == encrypted == "hello /a"
    assert "evil.test:443 was refused: host is not in Policy.network; allowed: " in refused


def test_the_hosts_loopback_is_reached_when_it_is_listed_by_address(connected: Sandbox, web: Web):
    found = asked(connected, f"http://127.0.0.1:{web.port}/b")
    assert found == dict.fromkeys(found, "hello /b")


def test_the_sandboxs_own_servers_are_reached_directly(offline: Sandbox, connected: Sandbox):
    code = """
        import threading
        from http.server import BaseHTTPRequestHandler, HTTPServer
        class Mine(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200); self.end_headers(); self.wfile.write(b"mine")
            def log_message(self, *_): pass
        server = HTTPServer(("127.0.0.1", 5000), Mine)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = all_of_them("http://localhost:5000/")
        server.shutdown()
        found
    """
    for sandbox in (offline, connected):
        execution = sandbox.run(textwrap.dedent(code))
        assert set(execution.value.values()) == {"mine"}
        assert execution.denials == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_every_client_raises_what_names_the_rule_and_what_is_allowed(connected: Sandbox, web: Web, scheme: str):
    execution = connected.run(f"all_of_them('{scheme}://evil.test/')")
    port = {"http": 80, "https": 443}[scheme]
    for client, said in execution.value.items():
        assert f"evil.test:{port} was refused: host is not in Policy.network; allowed: " in said, client
        assert f"example.test:{web.port}" in said, client
    (denial,) = told(execution)
    assert denial.pop("hint").startswith("allowed: example.test:")
    assert denial == {
        "kind": "network",
        "target": f"evil.test:{port}",
        "rule": "host is not in Policy.network",
        "source": "egress",
    }


def test_the_classes_of_exceptions_are_those_that_code_expects(connected: Sandbox):
    execution = connected.run("""
import socket, urllib.error
def raised(act):
    try: act()
    except Exception as failure: return failure
[isinstance(raised(lambda: urllib.request.urlopen("http://evil.test/")), urllib.error.URLError),
 isinstance(raised(lambda: urllib.request.urlopen("https://evil.test/")), urllib.error.URLError),
 isinstance(raised(lambda: requests.get("http://evil.test/")), requests.ConnectionError),
 isinstance(raised(lambda: requests.get("https://evil.test/")), requests.ConnectionError),
 isinstance(raised(lambda: httpx.get("http://evil.test/")), httpx.ConnectError),
 isinstance(raised(lambda: httpx.get("https://evil.test/")), httpx.TransportError),
 isinstance(raised(lambda: urllib3.request("GET", "http://evil.test/")), urllib3.exceptions.HTTPError),
 isinstance(raised(lambda: socket.getaddrinfo("evil.test", 80)), socket.gaierror),
 isinstance(raised(lambda: socket.create_connection(("192.0.2.1", 80), 1)), OSError)]
""")
    assert execution.value == [True] * 9


def test_redirects_are_followed_hop_by_hop_and_each_is_checked(connected: Sandbox, web: Web):
    follow = [name for name in asked(connected, f"http://example.test:{web.port}/in") if name != "http.client"]
    inside = asked(connected, f"http://example.test:{web.port}/in")
    outside = asked(connected, f"http://example.test:{web.port}/out")
    assert {inside[name] for name in follow} == {"hello /there"}
    assert all("evil.test:80 was refused" in outside[name] for name in follow), outside


def test_a_listed_name_with_a_private_address_is_refused(connected: Sandbox):
    execution = connected.run("requests.get('http://private.test/')")
    assert "10.0.0.1 (private)" in execution.error.value
    assert [denial.rule for denial in execution.denials] == [
        "addresses that are not public are refused: 10.0.0.1 (private)"
    ]


def test_a_listed_host_that_does_not_answer_is_an_exception_and_no_denial(connected: Sandbox):
    for scheme in ("http", "https"):
        execution = connected.run(f"all_of_them('{scheme}://nowhere.test/')")
        for client, said in execution.value.items():
            assert "nowhere.test has no address" in said, client
        assert execution.denials == []


def test_without_a_list_every_client_is_told_so_in_good_time(native: None, offline: Sandbox):
    started = time.perf_counter()
    execution = offline.run("all_of_them('http://example.org/') | {'tls': all_of_them('https://example.org/')}")
    assert time.perf_counter() - started < 20
    found = execution.value
    for said in (*found.pop("tls").values(), *found.values()):
        assert "was refused: network is off; allow hosts with Policy(network=[...])" in said
    assert [(denial.target, denial.rule, denial.source) for denial in execution.denials] == [
        ("example.org:80", "network is off", "egress"),
        ("example.org:443", "network is off", "egress"),
    ]


def test_raw_sockets_and_lookups_are_told_the_same_and_the_kernel_reports_them(offline: Sandbox):
    execution = offline.run("""
import asyncio, errno, socket
def said(act):
    try: return act()
    except OSError as failure: return [type(failure).__name__, failure.errno, str(failure)]
[said(lambda: socket.create_connection(("192.0.2.1", 443), 1)),
 said(lambda: socket.getaddrinfo("example.org", 80)),
 said(lambda: socket.gethostbyname("example.org")),
 said(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.2", 53))),
 said(lambda: asyncio.run(asyncio.open_connection("192.0.2.3", 80))),
 said(lambda: socket.socket().connect_ex(("192.0.2.4", 80))),
 said(lambda: socket.create_connection(("127.0.0.1", 9), 1))]
""")
    off = "network is off; allow hosts with Policy(network=[...])"
    *spoken, number, own = execution.value
    assert [(kind, errno) for kind, errno, _ in spoken] == [
        ("OSError", 101), ("gaierror", -2), ("gaierror", -2), ("OSError", 101), ("OSError", 101),
    ]  # fmt: skip
    targets = ["192.0.2.1:443", "example.org:80", "example.org", "192.0.2.2:53", "192.0.2.3:80"]
    for target, (_, errno, text) in zip(targets, spoken, strict=True):
        assert text == f"[Errno {errno}] {target} was refused: {off}"
    assert number == 101
    assert own[:2] == ["ConnectionRefusedError", 111]
    assert "loopback is the sandbox's own" in own[2]
    assert [denial.target for denial in execution.denials] == [*targets, "192.0.2.4:80", "127.0.0.1:9"]
    assert {denial.source for denial in execution.denials} == {"kernel"}


def test_programs_find_the_proxy_in_their_variables(connected: Sandbox, offline: Sandbox, web: Web):
    code = """
        import subprocess, sys
        program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read())"
        done = subprocess.run([sys.executable, "-c", program, _args], capture_output=True, text=True)
        done.stdout + done.stderr
    """
    reached = connected.run(textwrap.dedent(code), args=f"http://example.test:{web.port}/program")
    refused = offline.run(textwrap.dedent(code), args="https://example.org/")
    assert "hello /program" in reached.value
    assert "example.org:443 was refused: network is off" in refused.value
    assert [denial.source for denial in refused.denials] == ["egress"]


def test_pip_downloads_through_the_proxy(native: None, known: Names):
    shop = Shop()
    name, content = wheel("smallest", "1.0", {"smallest.py": "value = 7\n"})
    shop.files[name] = content
    port = shop.address.rpartition(":")[2].partition("/")[0]
    index = f"http://index.test:{port}/" + shop.address.partition(port)[2].lstrip("/")
    with Sandbox("native", policy=Policy(network=[f"index.test:{port}", f"127.0.0.1:{port}"])) as sandbox:
        execution = sandbox.run(
            "import subprocess, sys\n"
            "done = subprocess.run([sys.executable, '-m', 'pip', 'install', '--target', 'got', '--no-deps', 'smallest',\n"
            "    '--index-url', _args, '--trusted-host', 'index.test'], capture_output=True, text=True)\n"
            "sys.path.insert(0, 'got')\n"
            "import smallest\n"
            "smallest.value",
            args=index,
        )
    shop.close()
    assert execution.value == 7, execution.error
    assert execution.denials == []


def test_a_denial_between_two_runs_is_told_by_the_later_one(offline: Sandbox):
    first = offline.run("""
import os, threading, urllib.request
def later():
    while not os.path.exists("go"): time.sleep(0.01)
    try: urllib.request.urlopen("http://later.test/")
    except OSError: open("went", "w").close()
thread = threading.Thread(target=later); thread.start()
""")
    offline.files.write("go", b"")
    assert traces.eventually(lambda: "went" in [entry.path for entry in offline.files.list()], 20)
    second, third = offline.run("thread.join()"), offline.run("1")
    assert [[denial.target for denial in ex.denials] for ex in (first, second, third)] == [[], ["later.test:80"], []]


def test_a_flood_of_denials_stays_bounded(offline: Sandbox):
    execution = offline.run("""
import socket
for number in range(1000):
    try: socket.getaddrinfo("host-%d.test" % number, 80)
    except OSError: pass
for _ in range(300):
    try: urllib.request.urlopen("http://same.test/")
    except OSError: pass
""")
    assert execution.status == "ok"
    assert len(execution.denials) == 100


def test_an_engine_that_cannot_keep_to_a_list_names_one_that_can(native: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(NativeEngine, "capabilities", frozenset())
    with pytest.raises(InvalidRequest, match="the native engine has no network here; use engine='wasm'"):
        Sandbox("native", policy=Policy(network=["example.test"]))


def test_pooled_sandboxes_have_their_own_lists(native: None, known: Names, web: Web, monkeypatch: pytest.MonkeyPatch):
    here = compose.local_host()
    here.background.wait(here.host.pools.ready(probe.engine(here, "native"), compose.base_environment("native")))
    allowed = Policy(network=[f"example.test:{web.port}", f"127.0.0.1:{web.port}"])
    get = f"import urllib.request\nurllib.request.urlopen('http://example.test:{web.port}/pooled').read().decode()"
    with monkeypatch.context() as only_the_pool:
        only_the_pool.setattr(NativeEngine, "start", None)
        one, other = Sandbox("native", policy=allowed), Sandbox("native")
    with one, other:
        assert one.run(get).value == "hello /pooled"
        assert other.run(get).denials[0].rule == "network is off"
        one.reset()
        assert one.run(get).value == "hello /pooled"
        assert one.run("import os\nos.kill(os.getpid(), 9)").status == "crashed"
        assert one.run(get).value == "hello /pooled"
        signal.pidfd_send_signal(keeper_of(one).pidfd, signal.SIGKILL)  # a new network, a new listener, the same list
        assert traces.eventually(lambda: not keeper_of(one).alive)
        one.run("1")  # this one may find the Python gone, in the middle of things
        assert one.run(get).value == "hello /pooled"


def test_an_entry_that_has_no_clear_meaning_is_told_before_a_sandbox_is_there(native: None):
    with pytest.raises(InvalidRequest, match="a star stands only in front"):
        Sandbox("native", policy=Policy(network=["a.*.test"]))


def test_a_closed_sandbox_leaves_no_connection_and_no_listener(native: None, known: Names, web: Web):
    policy = Policy(network=[f"example.test:{web.port}", f"127.0.0.1:{web.port}"])
    bare = LocalHost(replace(Settings.load(), pool_size=0, reserve_size=0))

    def sockets() -> int:
        paths = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return sum(os.readlink(path).startswith("socket:") for path in paths if os.path.islink(path))

    hold = f"""
import socket
held = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(20)]
for end in held[:10]:
    end.send(b"CONNECT example.test:{web.port} HTTP/1.1\\r\\nHost: example.test:{web.port}\\r\\n\\r\\n")
    assert end.recv(100).startswith(b"HTTP/1.1 200")
"""
    try:
        with compose.using(bare), Sandbox("native") as bystander:
            bystander.run("1")
            time.sleep(0.5)
            before = sockets()
            for _ in range(3):
                with Sandbox("native", policy=policy) as sandbox:
                    sandbox.run(hold).raise_for_status()
                    assert sockets() > before + 10
            assert traces.eventually(lambda: sockets() <= before)
    finally:
        bare.close()


@pytest.mark.parametrize(
    ("hosts", "direct"),
    [
        ((), "localhost,127.0.0.1,::1"),
        (("example.org", "*.example.org:8080"), "localhost,127.0.0.1,::1"),
        (("127.0.0.1:8000",), "localhost,::1"),
        (("http://127.0.0.1",), "localhost,::1"),
        (("127.0.0.0/8", "[::1]:80", "localhost:80"), ""),
        (("::1",), "localhost,127.0.0.1"),
    ],
)
def test_what_is_listed_is_not_gone_around(hosts: tuple[str, ...], direct: str):
    found = variables(hosts)
    assert found.pop("no_proxy") == direct
    assert set(found.values()) == {"http://127.0.0.1:3128"}
