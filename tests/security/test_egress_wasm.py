"""Attacks on the way out of wasm sandboxes. Everything that must stay unreachable is a listener, and hears nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests import engines
from tests.loopback import Canary, Names, Web
from tests.security.attempts import tried

from belljar import Policy, Sandbox

# What hostile code may use: `got(url)` is what came, or the text of the refusal; `forged` goes below every client.
PRELUDE = """
import errno, socket, time, urllib.request
from belljar_kernel import fetch as kernel_fetch
mail = kernel_fetch.mail
def got(url):
    try: return urllib.request.urlopen(url, timeout=10).read().decode()
    except Exception as failure: return "%s: %s" % (type(failure).__name__, failure)
def forged(url, method="GET", headers=(), redirects=0):
    mail.denials.hosts = ["*"]
    try:
        made = kernel_fetch.Fetch(method, url, headers, None, redirects)
        head = made.now(made.answered(), 10)
        return "%d %s" % (head.status, made.now(made.whole(), 10).decode())
    except Exception as failure: return "%s: %s" % (type(failure).__name__, failure)
"""


def wasm(*network: str) -> Sandbox:
    with engines.required():
        made = Sandbox("wasm", policy=Policy(network=network, packages="none"))
    made.run(PRELUDE).raise_for_status()
    return made


@pytest.fixture(scope="module")
def attacker(known: Names, web: Web, canary: Canary) -> Iterator[Sandbox]:
    """It may reach example.test and 127.0.0.2, both on one port."""
    with wasm(f"example.test:{web.port}", f"127.0.0.2:{web.port}") as made:
        known.known["example.test"] = ["127.0.0.2"]
        assert made.run(f"got('http://example.test:{web.port}/')").value == "hello /"
        yield made


def test_an_empty_list_allows_nothing_even_to_a_forged_request(known: Names, canary: Canary):
    known.asked.clear()
    with wasm() as sandbox:
        code = "[get(url) for get in (got, forged) for url in ('http://example.test/', 'https://example.test/', _args)]"
        ran = sandbox.run(code, args=f"http://127.0.0.1:{canary.port}/")
    assert all("network is off" in said for said in ran.value)
    assert {(denial.rule, denial.source) for denial in ran.denials} == {
        ("network is off", "kernel"),
        ("network is off", "egress"),
    }
    assert known.asked == []
    assert not canary.heard


def test_names_like_the_listed_one_other_ports_and_other_schemes_are_refused_before_any_lookup(
    attacker: Sandbox, known: Names, web: Web, canary: Canary
):
    known.asked.clear()
    found = tried(
        attacker,
        """
        port = _args["port"]
        hosts = ["evilexample.test", "example.test.evil", "sub.example.test", "xn--example.test", "example.test%2eevil",
                 "example.test%00.evil", "example.test,evil", "exam\\u017fle.test", "example.test\\r\\nx:", "[example.test]"]
        urls = ["http://%s:%d/" % (host, port) for host in hosts]
        urls += ["http://example.test@evil.test:%d/" % port, "http://example.test:%d@127.0.0.1:%d/" % (port, port)]
        urls += ["http://example.test/", "https://example.test/", "http://example.test:%d/" % (port + 1)]
        urls += ["%s://example.test:%d/" % (scheme, port) for scheme in ("ftp", "gopher", "file", "ws", "data")]
        urls += ["/", "", "http:", "http:///", "http://example.test:%d\\\\@127.0.0.1/" % port]
        {url: forged(url) for url in urls}
        """,
        port=web.port,
    )
    assert [url for url, said in found.items() if not said.startswith("ConnectionRefusedError")] == []
    assert known.asked == []
    assert not canary.heard


def test_a_request_cannot_be_split_or_be_for_another_host_than_its_url(attacker: Sandbox, web: Web, canary: Canary):
    web.asked.clear()
    found = tried(
        attacker,
        """
        url = "http://example.test:%d/" % _args["port"]
        lines = [[("x", "1\\r\\nhost: evil.test")], [("x\\r\\ny", "1")], [("x", "1\\0")], [("", "1")], [("x", "\\ud800")]]
        tunnels = [forged(url, method) for method in ("CONNECT", "TRACE", "GET / HTTP/1.1\\r\\nx: y\\r\\n\\r\\nGET", "")]
        also = forged(url + "also", headers=[("host", "evil.test"), ("content-length", "5"), ("transfer-encoding", "chunked")])
        [[forged(url, headers=headers) for headers in lines], tunnels, forged(url + " x"), also]
        """,
        port=web.port,
    )
    assert all(said.startswith("ConnectionRefusedError") for said in [*found[0], *found[1], found[2]])
    assert found[3] == "200 hello /also"  # those headers are the host's to write
    assert web.asked == ["/also"]


def test_addresses_in_every_spelling_are_refused(attacker: Sandbox, canary: Canary, web: Web):
    loopback = ["2130706433", "0177.0.0.1", "0x7f000001", "127.1", "127.0.0.01", "0", "[::1]", "[::ffff:127.0.0.1]"]
    loopback += ["[0:0:0:0:0:ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "127.0.0.1.", "%31%32%37.0.0.1"]
    metadata = [
        "169.254.169.254",
        "2852039166",
        "0251.0376.0251.0376",
        "0xa9fea9fe",
        "169.254.43518",
        "[fd00:ec2::254]",
    ]
    found = tried(
        attacker,
        "{host: forged('http://%s:%d/' % (host, _args['port'])) for host in _args['hosts']}",
        hosts=loopback + metadata,
        port=web.port,
    )
    assert [host for host, said in found.items() if "was refused" not in said] == []
    assert not canary.heard


def test_redirects_are_checked_at_every_hop_whoever_follows_them(
    attacker: Sandbox, web: Web, canary: Canary, known: Names
):
    known.known["elsewhere.test"] = ["127.0.0.1"]
    known.asked.clear()
    web.asked.clear()
    base = f"http://example.test:{web.port}"
    for status in (301, 302, 303, 307, 308):
        web.redirect(f"/{status}", status, f"http://127.0.0.1:{web.port}/")
        web.redirect(f"/{status}/name", status, f"http://elsewhere.test:{web.port}/")
    for number in range(9):
        web.redirect(f"/hop/{number}", 302, f"/hop/{number + 1}")
    web.redirect("/hop/9", 302, f"http://elsewhere.test:{web.port}/")
    paths = [f"/{status}{end}" for status in (301, 302, 303, 307, 308) for end in ("", "/name")] + ["/hop/0"]
    code = "[f for path in _args['paths'] for f in (got(_args['base'] + path), forged(_args['base'] + path, redirects=20))]"
    found = tried(attacker, code, base=base, paths=paths)
    assert len(found) == 22
    assert [said for said in found if "host is not in Policy.network" not in said] == []
    assert [path for path in web.asked if path.startswith("/hop")] == [f"/hop/{number}" for number in range(10)] * 2
    assert "elsewhere.test" not in known.asked
    assert not canary.heard


def test_a_name_that_changes_its_address_leads_to_vetted_ones_only(
    attacker: Sandbox, known: Names, web: Web, canary: Canary
):
    url = f"http://example.test:{web.port}/rebound"
    try:
        known.asked.clear()
        known.known["example.test"] = ["127.0.0.1", "127.0.0.2", "::ffff:127.0.0.1"]
        assert tried(attacker, f"got({url!r})") == "hello /rebound"
        assert known.asked == ["example.test"]  # once: the address that was vetted is the one that is connected to
        known.known["example.test"] = ["127.0.0.1", "169.254.169.254", "::1"]
        assert "addresses that are not public are refused" in tried(attacker, f"got({url!r})")
    finally:
        known.known["example.test"] = ["127.0.0.2"]
    assert not canary.heard


def test_a_flood_of_requests_is_bounded_and_harms_nobody_else(attacker: Sandbox, web: Web):
    release = threading.Event()
    web.answers["/held"] = lambda: (release.wait(20), (200, {}, b"late"))[1]
    before = len(os.listdir("/proc/self/fd"))
    code = """
        held = [kernel_fetch.Fetch("GET", _args["url"]) for _ in range(1000)]
        def waits(fetch):
            try: fetch.now(fetch.connected(), 10)
            except OSError as failure: return str(failure)
        said = [waits(fetch) for fetch in held]
        held.clear()
        [said.count(None), next(filter(None, said))]
    """
    done: list[Any] = []
    flooding = threading.Thread(
        target=lambda: done.append(tried(attacker, code, url=f"http://example.test:{web.port}/held"))
    )
    with wasm() as bystander:
        flooding.start()
        answers = [bystander.run("6 * 7").value for _ in range(10)]
        most = len(os.listdir("/proc/self/fd"))
        flooding.join()
    release.set()
    assert answers == [42] * 10
    assert most < before + 200
    assert 0 < done[0][0] <= 64  # fewer where the host may open few files
    assert "a sandbox may have " in done[0][1]
    assert tried(attacker, f"got('http://example.test:{web.port}/after')") == "hello /after"


def test_an_answer_too_long_is_refused_and_a_silent_host_ends_with_the_run(attacker: Sandbox, web: Web):
    web.answers["/huge"] = lambda: (200, {"Content-Length": str(10 << 30)}, b"x" * 1000)
    assert "a sandbox may receive 1073741824 bytes" in tried(attacker, f"got('http://example.test:{web.port}/huge')")
    release = threading.Event()
    web.answers["/silent"] = lambda: (release.wait(20), (200, {}, b"late"))[1]
    ran = attacker.run(f"forged('http://example.test:{web.port}/silent')", timeout=1)
    release.set()
    assert (ran.status, ran.state) == ("timeout", "kept")
    assert tried(attacker, f"got('http://example.test:{web.port}/on')") == "hello /on"


@pytest.mark.parametrize(
    "forgery",
    [
        "mail.calls.ask('fetch.open', {'fetch': 7}, lasts=True)",
        "made = kernel_fetch.Fetch('GET', _args)\nfor _ in range(2): made._ask('read')",
    ],
)
def test_a_forged_event_ends_this_python_and_nothing_else(attacker: Sandbox, web: Web, forgery: str):
    url = f"http://example.test:{web.port}/"
    release = threading.Event()
    web.answers["/open"] = lambda: (release.wait(20), (200, {}, b"late"))[1]
    ran = attacker.run(f"{forgery}\nimport time\ntime.sleep(5)", args=f"{url}open")
    release.set()
    assert (ran.status, ran.state) == ("crashed", "reset")
    assert attacker.run(PRELUDE).state == "reset"
    assert tried(attacker, f"got({url!r})") == "hello /"
