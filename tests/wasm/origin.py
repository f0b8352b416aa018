"""A web server on loopback for the tests of one file: what it is asked for is in the path, and it remembers who came."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import unquote

BLOCK = bytes(range(256)) * 256
PATIENCE_S = 20


@dataclass
class Seen:
    """What the server has noticed."""

    paths: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    left: int = 0  # visitors who went away before the end


class Handler(http.server.BaseHTTPRequestHandler):
    """`/echo`, `/to/URL`, `/bytes/N`, `/endless`, `/slow/SECONDS`, `/chunked`, `/status/N`; anything else is repeated."""

    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S
    seen: ClassVar[Seen]

    def log_message(self, *_: object) -> None:
        """Be silent."""

    def answer(self) -> None:
        body = self._body()
        _, what, *rest = self.path.split("/", 2)
        argument = unquote(rest[0]) if rest else ""
        self.seen.paths.append(self.path)
        self.seen.at_once += 1
        self.seen.most_at_once = max(self.seen.most_at_once, self.seen.at_once)
        try:
            self._reply(what, argument, body)
        except ConnectionError:
            self.seen.left += 1
            self.close_connection = True
        finally:
            self.seen.at_once -= 1

    do_GET = do_POST = do_PUT = do_HEAD = answer  # noqa: N815

    def _reply(self, what: str, argument: str, body: bytes) -> None:
        if what == "echo":
            headers = {name.lower(): value for name, value in self.headers.items()}
            told = {"method": self.command, "headers": headers, "size": len(body), "body": body[:200].decode("latin-1")}
            self._say(200, json.dumps(told).encode())
        elif what == "to":
            self._say(302, b"", location=argument)
        elif what.isdecimal() and len(what) == 3:
            self._say(int(what), b"", location=argument)
        elif what == "bytes":
            self._begin(200, int(argument))
            for start in range(0, int(argument), len(BLOCK)):
                self.wfile.write(BLOCK[: int(argument) - start])
        elif what == "endless":
            self._begin(200, 1 << 28)
            while True:
                self.wfile.write(BLOCK)
        elif what == "slow":
            self._say(200, b"at last", before=lambda: time.sleep(float(argument)))
        elif what == "chunked":
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
        else:
            self._say(200, self.path.encode())

    def _say(self, status: int, body: bytes, before: Callable[[], None] = lambda: None, **headers: str) -> None:
        before()
        self._begin(status, len(body), **headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: int, length: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": "text/plain", "content-length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


class Origin:
    """The server. Use it as a context."""

    def __init__(self) -> None:
        self.seen = Seen()
        handler = type("Handler", (Handler,), {"seen": self.seen})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def wrap(self, wrap: Callable[..., object]) -> None:
        """Speak TLS from now on."""
        self._server.socket = wrap(self._server.socket, server_side=True)  # type: ignore[assignment]

    def __enter__(self) -> Origin:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def eventually(true: Callable[[], bool]) -> None:
    """Wait until something has come about."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
