"""How fast bytes come from a server on loopback: into a sandbox by way of the egress proxy, and to a plain Python."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

from belljar import Policy, Sandbox
from benchmarks.measure import Contestant, Effort, Row, in_turns
from benchmarks.ours import ENGINE, Belljar, checked

MEGABYTES = 64
ROUNDS = 10  # at the most: each moves three times as much
SERVER = f"""
import socket
body = b"x" * {MEGABYTES} * 1_000_000
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    end, _ = listener.accept()
    with end:
        try:
            end.recv(65536)
            end.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(body))
            end.sendall(body)
        except OSError: pass
"""
READ = """
def megabytes_per_second(opened):
    started, left = time.perf_counter(), 0
    while piece := opened.read(1 << 18): left += len(piece)
    return left / 1e6 / (time.perf_counter() - started)
"""
BY_URL = (
    "import time, urllib.request" + READ + "megabytes_per_second(urllib.request.urlopen('http://127.0.0.1:{port}/'))"
)
BY_TUNNEL = (
    "import http.client, time"
    + READ
    + "connection = http.client.HTTPConnection('127.0.0.1', {port})\n"
    + "connection.request('GET', '/')\n"
    + "megabytes_per_second(connection.getresponse())"
)


def measure(effort: Effort, stage: ExitStack) -> Row:
    """One download, over and over; each of ours in a sandbox of its own, whose start is not counted."""
    port = server(stage)
    belljar = stage.enter_context(Belljar(pool_size=0))
    entrants = [
        Contestant("belljar, plain HTTP", lambda: _ours(belljar, BY_URL, port), True),
        Contestant("belljar, a tunnel", lambda: _ours(belljar, BY_TUNNEL, port), True),
        Contestant("directly, plain python", lambda: directly(port)),
    ]
    few = replace(effort, rounds=min(effort.rounds, ROUNDS))
    title = f"{MEGABYTES} MB from a server on loopback"
    return Row("egress", title, in_turns(entrants, few), unit="MB/s", better="higher")


def _ours(belljar: Belljar, code: str, port: int) -> float:
    with belljar.in_charge(), Sandbox(ENGINE, policy=Policy(network=[f"127.0.0.1:{port}"])) as sandbox:
        return float(checked(sandbox.run(code.replace("{port}", str(port)))).value)


def server(stage: ExitStack) -> int:
    """The port of a server in a process of its own."""
    served = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    stage.callback(served.wait)
    stage.callback(served.kill)
    assert served.stdout is not None
    return int(served.stdout.readline())


def directly(port: int) -> float:
    """What a plain Python gets from it."""
    *lines, last = BY_URL.replace("{port}", str(port)).splitlines()
    code = "\n".join([*lines, f"print({last})"])
    done = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True, env={})
    return float(done.stdout)
