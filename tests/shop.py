"""A package index on loopback: real wheels of a few bytes, real pages, and a few ways to misbehave."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import tarfile
import threading
import time
import zipfile
from collections.abc import Sequence

Files = dict[str, str | bytes]


def wheel(
    name: str, version: str, files: Files, requires: Sequence[str] = (), tag: str = "py3-none-any"
) -> tuple[str, bytes]:
    """The file name and the bytes of a wheel, with a record as it should be."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    members: Files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: more\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    content = {path: text.encode() if isinstance(text, str) else text for path, text in members.items()}
    lines = [f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in content.items()]
    content[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 2, 2, 0, 0, 0)), data)
    return f"{name.replace('-', '_')}-{version}-{tag}.whl", buffer.getvalue()


def source(name: str, version: str, setup: str) -> tuple[str, bytes]:
    """A source distribution whose set-up is a program."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in {
            "setup.py": setup,
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        }.items():
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return f"{name}-{version}.tar.gz", buffer.getvalue()


class Shop:
    """What is on offer, and what was asked for. `slow_s` holds every answer back."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.announced: dict[str, str] = {}  # another hash than the file has
        self.asked: list[str] = []
        self.slow_s = 0.0
        shop = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shop.asked.append(self.path)
                time.sleep(shop.slow_s)
                content = shop.answer(self.path)
                self.send_response(200 if content is not None else 404)
                self.send_header("Content-Length", str(len(content or b"")))
                self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(content or b"")

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                pass  # a client that was ended

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}/simple"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def sell(self, *offers: tuple[str, bytes]) -> Shop:
        """Have these files, too."""
        self.files.update(offers)
        return self

    def answer(self, path: str) -> bytes | None:
        """A page about a project, or a file."""
        kind, _, name = path.strip("/").partition("/")
        if kind == "files":
            return self.files.get(name)
        offers = [file for file in self.files if file.split("-")[0].replace("_", "-").lower() == name.rstrip("/")]
        links = "".join(f'<a href="/files/{file}#sha256={self._hash(file)}">{file}</a>' for file in offers)
        return links.encode() or None

    def close(self) -> None:
        """Shut it."""
        self.server.shutdown()
        self.server.server_close()

    def _hash(self, file: str) -> str:
        return self.announced.get(file) or hashlib.sha256(self.files[file]).hexdigest()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
