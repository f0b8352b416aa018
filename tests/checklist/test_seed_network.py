"""Checklist rows of all seeds that are about the network: what the same code reaches with it off, and with a list."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.loopback import Names, Web, names

from belljar import Policy, Sandbox

GET = """
import urllib.request
try: answer = urllib.request.urlopen(_args, timeout=10).read().decode()
except OSError as failure: answer = str(failure)
answer
"""
SCRAPING = """\
import requests
from bs4 import BeautifulSoup

# Fetch webpage
response = requests.get(_args)
print(f'Status: {response.status_code}')

# Parse HTML
soup = BeautifulSoup(response.text, 'html.parser')
title = soup.find('title').text
print(f'Page title: {title}')
"""
FLASK = """\
from flask import Flask, jsonify
from datetime import datetime

app = Flask(__name__)

@app.route('/')
def hello():
    return jsonify({
        'message': 'Hello from Flask!',
        'timestamp': datetime.now().isoformat()
    })

@app.route('/health')
def health():
    return jsonify({'status': 'OK'})

if __name__ == '__main__':
    print('Flask app created successfully')
    print('Routes:')
    for rule in app.url_map.iter_rules():
        print(f'  {rule.endpoint}: {rule.rule}')
"""


@pytest.fixture(scope="module")
def known() -> Iterator[Names]:
    with names() as served:
        served.known = {"site.test": ["127.0.0.1"], "other.test": ["127.0.0.1"], "rebound.test": ["169.254.169.254"]}
        yield served


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    served = Web()
    page = b"<html><head><title>Moby-Dick</title></head><body><h1>Herman Melville</h1></body></html>"
    served.answers["/html"] = lambda: (200, {"Content-Type": "text/html"}, page)
    served.redirect("/elsewhere", 302, f"http://other.test:{served.port}/")
    yield served
    served.close()


@pytest.fixture(scope="module")
def listed(native: None, known: Names, web: Web) -> Iterator[Sandbox]:
    """With a list: one name, and the address that it has."""
    with Sandbox(
        "native", policy=Policy(network=[f"site.test:{web.port}", f"127.0.0.1:{web.port}", "rebound.test"])
    ) as made:
        yield made


def test_a07_the_list_changes_what_the_same_code_reaches(listed: Sandbox, fresh: Sandbox, web: Web):
    url = f"http://site.test:{web.port}/a"
    assert listed.run(GET, args=url).value == "hello /a"
    assert "network is off" in fresh.run(GET, args=url).value


def test_a39_with_the_network_off_a_call_fails_and_names_the_setting(fresh: Sandbox):
    ex = fresh.run("import requests\nrequests.get('https://example.org/')")
    assert (ex.status, ex.error.name) == ("error", "ProxyError")
    assert "network is off; allow hosts with Policy(network=[...])" in ex.error.value
    assert [(denial.kind, denial.target, denial.rule) for denial in ex.denials] == [
        ("network", "example.org:443", "network is off")
    ]


def test_a40_a_listed_host_is_reached_and_others_not_by_address_redirect_or_rebinding(listed: Sandbox, web: Web):
    reached = listed.run(GET, args=f"http://site.test:{web.port}/b").value
    name = listed.run(GET, args=f"http://other.test:{web.port}/")
    address = listed.run(GET, args=f"http://127.0.0.3:{web.port}/")
    redirect = listed.run(GET, args=f"http://site.test:{web.port}/elsewhere")
    rebinding = listed.run(GET, args="http://rebound.test/")
    assert reached == "hello /b"
    for ex in (name, address, redirect, rebinding):
        assert "was refused" in ex.value
        assert len(ex.denials) == 1
    assert "169.254.169.254 (cloud metadata)" in rebinding.value


def test_a41_and_e18_requests_and_the_async_client_of_httpx_both_fetch(listed: Sandbox, web: Web):
    ex = listed.run(
        "import httpx, requests\n"
        "async with httpx.AsyncClient() as client:\n"
        "    response = await client.get(_args)\n"
        "[requests.get(_args).text, response.text]",
        args=f"http://site.test:{web.port}/both",
    )
    assert ex.value == ["hello /both"] * 2


def test_e18_requests_and_httpx_work(listed: Sandbox, web: Web):
    ex = listed.run("import httpx, requests\n[requests.get(_args).status_code, httpx.get(_args).status_code]",
                    args=f"http://site.test:{web.port}/e18")  # fmt: skip
    assert ex.value == [200, 200]


def test_b10_two_sandboxes_one_with_and_one_without_network_differ(listed: Sandbox, shared: Sandbox, web: Web):
    found = [sandbox.run(GET, args=f"http://site.test:{web.port}/b10").value for sandbox in (listed, shared)]
    assert found[0] == "hello /b10"
    assert "network is off" in found[1]


def test_c29_the_web_scraping_example_prints_status_and_title(listed: Sandbox, web: Web):
    ex = listed.run(SCRAPING, args=f"http://site.test:{web.port}/html", packages=["requests", "beautifulsoup4"])
    assert (ex.status, ex.stdout) == ("ok", "Status: 200\nPage title: Moby-Dick\n"), ex.error


def test_c29_the_flask_example_prints_its_routes_and_can_be_asked(fresh: Sandbox):
    ex = fresh.run(FLASK, packages=["flask>=2.0.0"])
    lines = ex.stdout.splitlines()
    assert lines[:2] == ["Flask app created successfully", "Routes:"]
    assert {"  hello: /", "  health: /health"} <= {*lines}
    served = fresh.run(
        "import threading, requests\n"
        "from werkzeug.serving import make_server\n"
        "server = make_server('127.0.0.1', 5001, app)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "answer = requests.get('http://127.0.0.1:5001/health').json()\n"
        "server.shutdown()\n"
        "answer"
    )
    assert served.value == {"status": "OK"}, served.error
