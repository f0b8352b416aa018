"""No network: every client fails at once, and its error names the setting that would allow a host."""

from __future__ import annotations

import time

import pytest

from belljar import Sandbox

SETTING = "Policy(network=[...])"
CLIENTS = {
    "socket": "import socket\nsocket.create_connection((_args[0], _args[1]), timeout=5)",
    "a name": "import socket\nsocket.getaddrinfo('example.org', 80)",
    "urllib": "import urllib.request\nurllib.request.urlopen(_args[2], timeout=5)",
    "http.client": "import http.client\nhttp.client.HTTPConnection(_args[0], _args[1], timeout=5).request('GET', '/')",
    "asyncio": "import asyncio\nawait asyncio.open_connection(_args[0], _args[1])",
    "requests": "import requests\nrequests.get(_args[2], timeout=5)",
    "requests over https": "import requests\nrequests.get(_args[2].replace('http:', 'https:'), timeout=5)",
    "urllib3": "import urllib3\nurllib3.request('GET', _args[2], timeout=5, retries=False)",
    "httpx": "import httpx\nhttpx.get(_args[2], timeout=5)",
    "httpx awaited": "import httpx\nasync with httpx.AsyncClient(timeout=5) as client:\n    await client.get(_args[2])",
    "pandas": "import pandas as pd\npd.read_csv(_args[2] + 'data.csv')",
    "an XMLHttpRequest": "import js\nrequest = js.XMLHttpRequest.new()\nrequest.open('GET', _args[2])",
    "a WebSocket": "import js\njs.WebSocket.new(_args[2].replace('http', 'ws'))",
    "pyfetch": "from pyodide.http import pyfetch\nawait pyfetch(_args[2])",
    "JavaScript's fetch": "import js\nawait js.fetch(_args[2])",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_fails_at_once_and_is_told_the_setting(wasm: Sandbox, listener, client: str):
    wasm.run("import requests, httpx, pandas")  # not to be counted
    began = time.monotonic()
    ran = wasm.run(CLIENTS[client], args=["127.0.0.1", listener.port, f"http://127.0.0.1:{listener.port}/"], timeout=6)
    assert ran.status == "error"
    assert SETTING in ran.stderr
    assert ran.denials
    assert {(denial.kind, denial.source) for denial in ran.denials} == {("network", "kernel")}
    assert time.monotonic() - began < 4
    assert listener.connections() == 0


def test_nothing_reaches_a_listener_by_whatever_javascript_has(wasm: Sandbox, listener):
    ran = wasm.run(
        "import js\nfrom pyodide.code import run_js\ntried = []\n"
        "for attempt in (\n"
        "    \"fetch(URL)\", \"new XMLHttpRequest().open('GET', URL)\", \"new WebSocket(URL.replace('http', 'ws'))\",\n"
        '    "Deno.connect({port: PORT})", "new EventSource(URL)", "import(URL)",\n'
        '    "navigator.sendBeacon(URL)", "Deno.createHttpClient({}) && fetch(URL)", "new WebSocketStream(URL)",\n'
        "):\n"
        "    code = attempt.replace('URL', repr(_args[1])).replace('PORT', str(_args[0]))\n"
        "    try: run_js(code); tried.append('called')\n"
        "    except BaseException as error: tried.append(type(error).__name__)\n"
        "import asyncio\nawait asyncio.sleep(0.3)\nlen(tried)",
        args=[listener.port, f"http://127.0.0.1:{listener.port}/"],
    )
    assert (ran.status, ran.value) == ("ok", 9)
    assert listener.connections() == 0
    wasm.reset()


@pytest.mark.parametrize(
    "script", ["Promise.reject(new Error('unkept'))", "queueMicrotask(() => { throw new Error('late') })"]
)
def test_an_unkept_promise_of_javascript_does_not_end_the_sandbox(bare: Sandbox, script: str):
    bare.run("kept = 1")
    assert (
        bare.run("from pyodide.code import run_js\ntry: run_js(_args)\nexcept RuntimeError: pass", args=script).status
        == "ok"
    )
    time.sleep(0.3)
    ran = bare.run("kept")
    assert (ran.value, ran.state) == (1, "kept")


def test_imports_are_watched_by_one_finder(bare: Sandbox):
    assert bare.run("import sys\n[type(finder).__name__ for finder in sys.meta_path].count('ImportWatch')").value == 1
