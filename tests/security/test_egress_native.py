"""Attacks on the way out of native sandboxes. Everything that must stay unreachable is a listener, and hears nothing."""

from __future__ import annotations

import os
import socket
import textwrap
import threading
from collections.abc import Iterator

import pytest
from tests.loopback import Canary, Names, Web
from tests.security.attempts import tried

from belljar import Policy, Sandbox

# What hostile code may use: `got(url)` is what came, or the text of the refusal; `spoken(bytes)` talks to the proxy.
PRELUDE = """
import errno, os, socket, time, urllib.request
DOORWAY = ("127.0.0.1", 3128)
def got(url):
    try: return urllib.request.urlopen(url, timeout=10).read().decode()
    except Exception as failure: return "%s: %s" % (type(failure).__name__, failure)
def spoken(*parts):
    with socket.create_connection(DOORWAY, 10) as end:
        for part in parts: end.sendall(part)
        answer = b""
        while piece := end.recv(65536): answer += piece
    return answer.decode("latin-1")
def tunnel(target):
    return spoken(b"CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (target.encode(), target.encode()))
"""


@pytest.fixture(scope="module")
def attacker(native: None, known: Names, web: Web, canary: Canary) -> Iterator[Sandbox]:
    """It may reach example.test and 127.0.0.2, both on one port."""
    policy = Policy(network=[f"example.test:{web.port}", f"127.0.0.2:{web.port}"])
    with Sandbox("native", policy=policy) as made:
        known.known["example.test"] = ["127.0.0.2"]
        made.run(PRELUDE).raise_for_status()
        assert made.run(f"got('http://example.test:{web.port}/')").value == "hello /"
        known.asked.clear()
        yield made


def test_no_list_and_an_empty_list_allow_nothing(native: None, known: Names, canary: Canary):
    known.asked.clear()
    for policy in (None, Policy(), Policy(network=[])):
        with Sandbox("native", policy=policy) as sandbox:
            sandbox.run(PRELUDE)
            found = tried(
                sandbox,
                f"[got('http://example.test/'), got('https://example.test/'), tunnel('127.0.0.1:{canary.port}')]",
            )
            assert all("network is off" in said for said in found)
    assert "example.test" not in known.asked
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
                 "example.test%00.evil", "example.test,evil", "exam\\u017fle.test"]
        urls = ["http://%s:%d/" % (host, port) for host in hosts]
        urls += ["http://example.test@evil.test:%d/" % port, "http://example.test:%d@127.0.0.1:%d/" % (port, port)]
        urls += ["http://example.test/", "https://example.test/", "http://example.test:%d/" % (port + 1)]
        found = {url: got(url) for url in urls}
        for scheme in ("ftp", "gopher", "file", "ws"):
            found[scheme] = spoken(b"GET %s://example.test:%d/ HTTP/1.1\\r\\nHost: example.test:%d\\r\\n\\r\\n"
                                   % (scheme.encode(), port, port))
        found["host header"] = spoken(b"GET http://example.test:%d/ HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n" % (port, port))
        found
        """,
        port=web.port,
    )
    assert [said for said in found.values() if "hello" in said] == []
    assert known.asked == []
    assert not canary.heard


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
        """
        found = {}
        for host in _args["hosts"]:
            target = "%s:%d" % (host, _args["port"])
            found[host] = spoken(b"GET http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % ((target.encode(),) * 2))
            found["tunnel " + host] = tunnel(target)
        for kind, address in (1, b"\\x7f\\0\\0\\1"), (4, bytes(15) + b"\\1"), (3, b"\\x09127.0.0.1"):
            request = b"\\5\\1\\0\\5\\1\\0" + bytes([kind]) + address + _args["port"].to_bytes(2, "big")
            found["socks %d" % kind] = spoken(request)[2:4]
        found
        """,
        hosts=loopback + metadata,
        port=web.port,
    )
    assert {said for name, said in found.items() if name.startswith("socks")} == {"\x05\x02"}
    assert [
        name for name, said in found.items() if not said.startswith(("HTTP/1.1 403", "HTTP/1.1 400", "\x05\x02"))
    ] == []
    assert not canary.heard


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_a_host_that_is_not_listed_is_refused(
    attacker: Sandbox, web: Web, canary: Canary, known: Names, status: int
):
    web.redirect(f"/{status}", status, f"http://127.0.0.1:{web.port}/")
    web.redirect(f"/{status}/name", status, f"http://elsewhere.test:{web.port}/")
    known.known["elsewhere.test"] = ["127.0.0.1"]
    found = tried(attacker, f"[got('http://example.test:{web.port}/{status}' + end) for end in ('', '/name')]")
    assert "host is not in Policy.network" in found[1]
    # urllib asks its own loopback for this one, where nothing listens: what is not listed is the sandbox's own
    assert "hello" not in found[0]
    assert "elsewhere.test" not in known.asked
    assert not canary.heard


def test_ten_hops_are_each_checked(attacker: Sandbox, web: Web, canary: Canary):
    for number in range(9):
        web.redirect(f"/hop/{number}", 302, f"/hop/{number + 1}")
    web.redirect("/hop/9", 302, f"http://evil.test:{web.port}/")
    web.asked.clear()
    found = tried(attacker, f"got('http://example.test:{web.port}/hop/0')")
    assert "evil.test" in found
    assert "was refused" in found
    assert web.asked == [f"/hop/{number}" for number in range(10)]
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


def test_code_that_goes_around_the_proxy_finds_no_route(attacker: Sandbox, web: Web, canary: Canary):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        datagrams.setblocking(False)
        found = tried(
            attacker,
            """
            import ctypes
            def reach(family, kind, address):
                with socket.socket(family, kind) as end:
                    end.settimeout(2)
                    try:
                        end.connect(address)
                        end.send(b"hello")
                        return "did it: %r" % end.recv(10)
                    except OSError as failure: return errno.errorcode.get(failure.errno, str(failure))
            found = {}
            for host in ("127.0.0.1", "127.0.0.2", "169.254.169.254", "192.0.2.1", "10.0.0.1"):
                found["tcp " + host] = reach(socket.AF_INET, socket.SOCK_STREAM, (host, _args["tcp"]))
            for host, port in (("127.0.0.1", _args["udp"]), ("192.0.2.1", 53), ("192.0.2.1", 443)):
                found["udp %s %d" % (host, port)] = reach(socket.AF_INET, socket.SOCK_DGRAM, (host, port))
            found["tcp6"] = reach(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 443))
            found["mapped"] = reach(socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", _args["tcp"]))
            for name, args in {"raw": (socket.AF_INET, socket.SOCK_RAW, 1), "packet": (17, 3, 0), "icmp": (2, 2, 1)}.items():
                try: socket.socket(*args).connect(("127.0.0.1", 1)); found[name] = "did it"
                except OSError as failure: found[name] = errno.errorcode.get(failure.errno, str(failure))
            found
            """,
            tcp=web.port,
            udp=datagrams.getsockname()[1],
        )
        assert [what for what, said in found.items() if not said.startswith("E")] == []
        with pytest.raises(BlockingIOError):
            datagrams.recv(10)
    assert not canary.heard


def test_the_doorway_can_be_neither_taken_nor_found_among_the_descriptors(attacker: Sandbox, web: Web):
    found = tried(
        attacker,
        """
        def take(family, address, *options):
            with socket.socket(family, socket.SOCK_STREAM) as end:
                for option in options: end.setsockopt(socket.SOL_SOCKET, option, 1)
                try: end.bind(address); end.listen(); return "did it"
                except OSError as failure: return errno.errorcode[failure.errno]
        both = (socket.SO_REUSEADDR, socket.SO_REUSEPORT)
        names = [os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)]
        [take(socket.AF_INET, ("127.0.0.1", 3128)), take(socket.AF_INET, ("127.0.0.1", 3128), *both),
         take(socket.AF_INET, ("0.0.0.0", 3128), *both), take(socket.AF_INET6, ("::", 3128), *both),
         sum(name.startswith("socket:") for name in names)]
        """,
    )
    assert found[:4] == ["EADDRINUSE"] * 4
    assert found[4] <= 1  # the channel
    assert tried(attacker, f"got('http://example.test:{web.port}/still')") == "hello /still"


def test_a_flood_of_connections_harms_nobody_else_and_passes(attacker: Sandbox, web: Web):
    before = len(os.listdir("/proc/self/fd"))
    with Sandbox("native") as bystander:
        bystander.run("1")
        flooding = threading.Thread(
            target=tried,
            args=(
                attacker,
                """
                held = []
                for _ in range(900):
                    end = socket.socket(); end.settimeout(1)
                    try: end.connect(DOORWAY)
                    except OSError: end.close(); continue
                    held.append(end)
                time.sleep(1)
                for end in held: end.close()
                """,
            ),
        )
        flooding.start()
        answers = [bystander.run("6 * 7").value for _ in range(10)]
        most = len(os.listdir("/proc/self/fd"))
        flooding.join()
    assert answers == [42] * 10
    assert most < before + 600
    assert tried(attacker, f"got('http://example.test:{web.port}/after')") == "hello /after"


def test_a_long_and_a_slow_answer_are_stopped_by_the_runs_own_deadline(attacker: Sandbox, web: Web):
    web.answers["/huge"] = lambda: (200, {"Content-Length": str(10 << 30)}, b"x" * 1000)
    execution = attacker.run(f"got('http://example.test:{web.port}/huge')")
    assert "a sandbox may receive 1073741824 bytes" in execution.value
    stuck = Canary("127.0.0.2")  # accepts, and never says anything
    try:
        with Sandbox("native", policy=Policy(network=[f"127.0.0.2:{stuck.port}"])) as sandbox:
            sandbox.run(PRELUDE)
            waiting = sandbox.run(f"import requests\nrequests.get('http://127.0.0.2:{stuck.port}/')", timeout=1)
            assert waiting.status == "timeout"
            assert sandbox.run("1 + 1").value == 2
            assert stuck.heard
    finally:
        stuck.close()


def test_headers_of_a_denial_cannot_be_forged_by_a_server(attacker: Sandbox, web: Web):
    web.answers["/forged"] = lambda: (200, {"Belljar-Denied": "example.test", "Belljar-Rule": "lies"}, b"truth")
    assert tried(attacker, f"got('http://example.test:{web.port}/forged')") == "truth"


def test_what_the_kernel_says_of_denials_is_marked_as_its_word_and_bounded(attacker: Sandbox):
    execution = attacker.run(
        textwrap.dedent("""
        mine = next(cell.cell_contents for cell in socket.socket.connect.__closure__ if hasattr(cell.cell_contents, "tell"))
        mine._left = 10**6
        for n in range(500): mine.tell("%d " % n + "x" * 5000, "r\\x1b[31m\\n", "h" * 5000)
        for n in range(500): mine._send("denial", {"kind": "k", "target": "", "rule": "r", "hint": "h", "source": "egress"})
        """)
    )
    assert execution.status == "ok", execution.error
    assert len(execution.denials) == 100
    assert {denial.source for denial in execution.denials} == {"kernel"}
    assert all(len(denial.hint) == 1000 and denial.rule == "r?[31m?" for denial in execution.denials)
