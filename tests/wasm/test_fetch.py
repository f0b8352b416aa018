"""What the policy allows is reached from WebAssembly by every HTTP client, through the host; the rest is told apart."""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.loopback import certificate_in
from tests.wasm.interrupted import interrupted
from tests.wasm.origin import BLOCK, Origin, eventually

from belljar import Policy, Sandbox
from belljar.compose import LocalHost

GET = {
    "urllib": "urllib.request.urlopen(_args).read().decode()",
    "http.client": "c = http.client.HTTPConnection(*base)\nc.request('GET', urlsplit(_args).path)\nc.getresponse().read().decode()",
    "requests": "requests.get(_args).text",
    "urllib3": "urllib3.request('GET', _args).data.decode()",
    "httpx": "httpx.get(_args, follow_redirects=True).text",
    "httpx awaited": "async with httpx.AsyncClient(follow_redirects=True) as c: r = await c.get(_args)\nr.text",
    "pyfetch": "await (await pyfetch(_args)).text()",
    "open_url": "open_url(_args).read()",
    "pyxhr": "pyxhr.get(_args).text",
}
REFUSED = {
    "urllib": ("URLError", "urllib.request.urlopen(_args)"),
    "http.client": ("ConnectionRefusedError", "http.client.HTTPConnection(urlsplit(_args).netloc).request('GET', '/')"),
    "requests": ("ConnectionError", "requests.get(_args)"),
    "urllib3": ("MaxRetryError", "urllib3.request('GET', _args)"),
    "httpx": ("ConnectError", "httpx.get(_args)"),
    "httpx awaited": ("ConnectError", "async with httpx.AsyncClient() as c: await c.get(_args)"),
    "pyfetch": ("ConnectionRefusedError", "await pyfetch(_args)"),
    "open_url": ("ConnectionRefusedError", "open_url(_args)"),
}
IMPORTS = (
    "import asyncio, hashlib, http.client, httpx, requests, urllib.error, urllib.request, urllib3\n"
    "from pyodide.http import open_url, pyfetch, pyxhr\nfrom urllib.parse import urlsplit\n"
)
NOBODY = "127.0.0.1:9"  # allowed, and nobody listens


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with Origin() as made:
        yield made


@pytest.fixture(scope="module")
def encrypted(certificate: Path) -> Iterator[Origin]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with Origin() as made:
        made.wrap(context.wrap_socket)
        yield made


@pytest.fixture(scope="module")
def online(host: LocalHost, origin: Origin, encrypted: Origin) -> Iterator[Sandbox]:
    policy = Policy(network=[f"127.0.0.1:{origin.port}", NOBODY, *_hosts(encrypted)])
    with Sandbox("wasm", policy=policy) as made:
        assert made.run(f"{IMPORTS}base = '127.0.0.1', {origin.port}\nurl = {origin.url!r}").status == "ok"
        yield made


@pytest.mark.parametrize("client", GET)
def test_a_client_reads_from_a_host_that_is_allowed(online: Sandbox, origin: Origin, client: str):
    ran = online.run(GET[client], args=f"{origin.url}/some/path")
    assert (ran.status, ran.value, ran.denials) == ("ok", "/some/path", []), ran.error


@pytest.mark.parametrize("client", [name for name in GET if name != "http.client"])
def test_a_redirect_is_followed_hop_by_hop_and_refused_where_it_leaves_the_list(
    online: Sandbox, origin: Origin, listener, client: str
):
    ran = online.run(GET[client], args=f"{origin.url}/to/{origin.url}/the/end")
    assert (ran.status, ran.value) == ("ok", "/the/end"), ran.error
    ran = online.run(GET[client], args=f"{origin.url}/to/http://127.0.0.1:{listener.port}/")
    assert (ran.status, [denial.target for denial in ran.denials]) == ("error", [f"127.0.0.1:{listener.port}"])
    assert listener.connections() == 0


@pytest.mark.parametrize("client", REFUSED)
def test_a_refusal_is_the_clients_own_error_and_names_the_rule_and_what_is_allowed(
    online: Sandbox, origin: Origin, client: str
):
    name, code = REFUSED[client]
    began = time.monotonic()
    ran = online.run(code, args="http://example.org/")
    assert time.monotonic() - began < 3
    assert (ran.status, ran.error.name) == ("error", name)
    (denial,) = ran.denials
    assert (denial.kind, denial.target, denial.source) == ("network", "example.org:80", "egress")
    assert denial.hint.startswith(f"allowed: 127.0.0.1:{origin.port}, {NOBODY}")
    assert f"{denial.rule}; {denial.hint}" in ran.error.value


def test_a_host_that_does_not_answer_is_a_failed_connection_and_no_denial(online: Sandbox):
    for code, name in (
        ("requests.get(_args)", "ConnectionError"),
        ("httpx.get(_args)", "ConnectError"),
        ("urllib.request.urlopen(_args)", "URLError"),
        ("await pyfetch(_args)", "ConnectionError"),
    ):
        ran = online.run(code, args=f"http://{NOBODY}/")
        assert (ran.error.name, ran.denials) == (name, [])
        assert f"{NOBODY} cannot be reached" in ran.error.value


def test_time_limits_of_the_clients_hold(online: Sandbox, origin: Origin):
    code = """
    def name_of(get):
        try: get()
        except Exception as error: return type(error).__name__
    late = url + '/slow/2'
    async def later():
        try: await httpx.AsyncClient(timeout=0.1).get(late)
        except Exception as error: return type(error).__name__
    [name_of(lambda: requests.get(late, timeout=0.1)), name_of(lambda: httpx.get(late, timeout=0.1)),
     name_of(lambda: urllib.request.urlopen(late, timeout=0.1)), await later()]
    """
    ran = online.run("\n".join(line[4:] for line in code.splitlines()))
    assert ran.value == ["ReadTimeout", "ReadTimeout", "TimeoutError", "ReadTimeout"]


def test_bodies_go_up_with_their_length_or_in_chunks(online: Sandbox):
    ran = online.run("""
sized = requests.post(url + '/echo', data=b'y' * 3_000_000).json()
pieces = requests.put(url + '/echo', data=(b'z' * 70_000 for _ in range(20))).json()
small = requests.post(url + '/echo', data=(b'.' for _ in range(1000))).json()
async def streamed():
    for _ in range(20): yield b'w' * 70_000
async with httpx.AsyncClient() as client:
    awaited = (await client.post(url + '/echo', content=streamed())).json()
form = urllib.request.urlopen(url + '/echo', data=b'a=1').read().decode()
empty = requests.post(url + '/echo', data=b'').json()
fetched = await (await pyfetch(url + '/echo', method='POST', body='hi', headers={'X-One': '1'})).json()
[sized['size'], sized['headers']['content-length'], pieces['size'], small['size'], awaited['size'],
 awaited['headers']['transfer-encoding'], '"body": "a=1"' in form, empty['headers']['content-length'],
 fetched['body'], fetched['headers']['x-one'], pyxhr.post(url + '/echo', json={'k': 2}).json()['body']]""")
    expected = [3_000_000, "3000000", 1_400_000, 1000, 1_400_000, "chunked", True, "0", "hi", "1", '{"k": 2}']
    assert ran.value == expected, ran.error


def test_twenty_megabytes_stream_through_unchanged(online: Sandbox):
    size = 20 << 20
    ran = online.run(f"""
digest, count = hashlib.sha256(), 0
with requests.get(url + '/bytes/{size}', stream=True) as response:
    for piece in response.iter_content(1 << 16): digest.update(piece); count += len(piece)
[count, digest.hexdigest(), len(httpx.get(url + '/bytes/{size}').content)]""")
    assert ran.value == [size, hashlib.sha256(BLOCK * (size // len(BLOCK))).hexdigest(), size], ran.error


def test_a_session_is_kept_and_every_framing_is_understood(online: Sandbox):
    ran = online.run("""
session = requests.Session()
texts = [session.get(f'{url}/{k}').text for k in range(3)]
head = session.head(url + '/bytes/12')
[texts, session.get(url + '/chunked').text, head.headers['content-length'], head.text, session.get(url + '/204').text]""")
    assert ran.value == [["/0", "/1", "/2"], "onetwo", "12", "", ""], ran.error


def test_awaited_requests_overlap(online: Sandbox, origin: Origin):
    origin.seen.most_at_once = 0
    ran = online.run("""
async with httpx.AsyncClient() as client:
    answers = await asyncio.gather(*(client.get(url + '/slow/0.5') for _ in range(6)), asyncio.sleep(0.1))
[answer.text for answer in answers[:6]]""")
    assert ran.value == ["at last"] * 6, ran.error
    assert origin.seen.most_at_once >= 4


def test_what_is_closed_or_cancelled_is_waited_for_no_longer(online: Sandbox):
    ran = online.run("""
from belljar_kernel.fetch import Fetch
async def name_of(waiting):
    try: await waiting
    except Exception as error: return type(error).__name__
async with httpx.AsyncClient(timeout=None) as client:
    late = await name_of(asyncio.wait_for(client.get(url + '/slow/3'), 0.1))
    fetch = Fetch('GET', url + '/slow/3')
    waiting = asyncio.create_task(name_of(fetch.later(fetch.answered())))
    await asyncio.sleep(0.1)
    fetch.close()
    found = [late, await waiting, (await client.get(url + '/on')).text]
found""")
    assert ran.value == ["TimeoutError", "ConnectionError", "/on"], ran.error


def test_an_interrupt_ends_the_wait_for_a_response_and_keeps_the_state(online: Sandbox):
    for wait in ("requests.get(url + '/slow/5')", "await pyfetch(url + '/slow/5')"):
        ran = interrupted(online, f"kept = 41\nprint('on', flush=True)\n{wait}")
        assert (ran.status, ran.state) == ("cancelled", "kept")
        assert online.run("kept + 1, requests.get(url + '/after').text").value == [42, "/after"]


def test_a_response_can_be_read_by_a_later_run_and_is_left_when_nobody_has_it(online: Sandbox, origin: Origin):
    online.run("response = requests.get(url + '/endless', stream=True)\nbegun = response.raw.read(100)")
    assert online.run("len(begun + response.raw.read(1_000_000))").value == 1_000_100
    before = origin.seen.left
    online.run("import gc\ndel response\ngc.collect()")
    eventually(lambda: origin.seen.left > before)


def test_requests_end_with_the_python_that_made_them(host: LocalHost, origin: Origin):
    before = origin.seen.left
    opened = "import urllib.request\nkept = [urllib.request.urlopen(_args) for _ in range(5)]\nkept[0].read(5).hex()"
    with Sandbox("wasm", policy=Policy(network=[f"127.0.0.1:{origin.port}"], packages="none")) as sandbox:
        assert sandbox.run(opened, args=f"{origin.url}/endless").value == BLOCK[:5].hex()
        sandbox.reset()
        eventually(lambda: origin.seen.left >= before + 5)
        assert sandbox.run(opened, args=f"{origin.url}/endless").value == BLOCK[:5].hex()
    eventually(lambda: origin.seen.left >= before + 10)


def test_tls_is_spoken_by_the_host_with_its_own_trust(
    online: Sandbox, encrypted: Origin, certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    url = f"https://localhost:{encrypted.port}/secret"
    for code, name in (
        ("requests.get(_args)", "SSLError"),
        ("requests.get(_args, verify=False)", "SSLError"),
        ("urllib.request.urlopen(_args)", "URLError"),
        ("httpx.get(_args)", "ConnectError"),
        ("await pyfetch(_args)", "SSLCertVerificationError"),
    ):
        ran = online.run(code, args=url)
        assert (ran.error.name, ran.denials) == (name, [])
        assert f"localhost:{encrypted.port} cannot be trusted" in ran.error.value
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Sandbox("wasm", policy=Policy(network=_hosts(encrypted), packages="none")) as trusting:
        ran = trusting.run("import urllib.request; urllib.request.urlopen(_args).read().decode()", args=url)
        assert ran.value == "/secret", ran.error


def _hosts(origin: Origin) -> list[str]:
    return [f"localhost:{origin.port}", f"127.0.0.1:{origin.port}"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate_in(tmp_path_factory.mktemp("tls"), "localhost")
