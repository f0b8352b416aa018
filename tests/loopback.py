"""The world as a sandbox could meet it, on loopback: web servers, listeners that must hear nothing, and a name server."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Answer = tuple[int, dict[str, str], bytes]


class Web:
    """A web server that answers by path, and remembers what it was asked."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0, certificate: Path | None = None) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Callable[[], Answer]] = {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, headers, body = outer.answers.get(
                    self.path, lambda: (200, {}, b"hello " + self.path.encode())
                )()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                with contextlib.suppress(OSError):
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((address, port), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def redirect(self, path: str, status: int, target: str) -> None:
        """Have a path lead elsewhere."""
        self.answers[path] = lambda: (status, {"Location": target}, b"")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Canary:
    """A listener that nobody may come to."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        self._listener = socket.create_server((address, port))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]

    @property
    def heard(self) -> bool:
        """Whether somebody connected since the last look."""
        try:
            self._listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._listener.close()


class Names:
    """The name server of every proxy in this process: what it knows, and what it was asked."""

    def __init__(self) -> None:
        self.known: dict[str, list[str]] = {}
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> list[str]:
        self.asked.append(host)
        if host not in self.known:
            raise OSError("no such name")
        return self.known[host]


@contextlib.contextmanager
def names() -> Iterator[Names]:
    """Have the egress proxies of this process ask no other name server."""
    served = Names()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("belljar.egress.gate.SystemResolver", lambda: served)
        yield served


def certificate_in(folder: Path, *hosts: str) -> Path:
    """One PEM file with a key and a self-signed certificate for these names."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the test's certificate, and it is not here")
    alternatives = "subjectAltName=" + ",".join(f"DNS:{host}" for host in hosts)
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", f"/CN={hosts[0]}", "-addext", alternatives]
    command += ["-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    return both
