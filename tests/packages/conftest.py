"""A little Pyodide of a few kilobytes, pinned like the real one, and servers on loopback that have it or do not."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import socket
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from belljar.packages import lookup, pins
from belljar.packages.pins import Pin, Pins
from belljar.packages.progress import in_silence
from belljar.packages.sources.base import Source, Unavailable
from belljar.settings import Settings

CDN = "https://127.0.0.1:9/pyodide/v"  # nobody listens there
CORE = {
    "pyodide.asm.mjs": b"export default 1;",
    "pyodide.asm.wasm": b"\0asm" + bytes(100),
    "pyodide.mjs": b"const v=`" + CDN.encode() + b"${U}/full/`;",
    "python_stdlib.zip": b"PK" + bytes(100),
}


def wheel(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 2, 2, 0, 0, 0)), content)
    return buffer.getvalue()


WHEELS = {
    "apple-1.0-py3-none-any.whl": wheel(
        {"apple/__init__.py": b"x = 1", "apple-1.0.dist-info/METADATA": b"Name: apple"}
    ),
    "pear_tree-2.0-py3-none-any.whl": wheel(
        {"pear/__init__.py": b"", "pear/a.pyi": b"", "pear/tests/test_a.py": b"", "pear/tests/__init__.py": b""}
    ),
    "quince-3.0-py3-none-any.whl": wheel(
        {
            "quince.py": b"y = 2",
            "quince-3.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: quince\nVersion: 3.0\n",
            "quince-3.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "quince-3.0.dist-info/RECORD": b"",
        }
    ),
}
BUNDLE = wheel(
    {f"basket/pyodide/{name}": content for name, content in (CORE | WHEELS).items() if "quince" not in name}
    | {
        "basket-1.2.dist-info/METADATA": b"Metadata-Version: 2.1\nName: basket\nVersion: 1.2\n",
        "basket-1.2.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "basket-1.2.dist-info/RECORD": b"",
    }
)


def tarball() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in CORE.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


TARBALL = tarball()
FILES = CORE | WHEELS


def pin(name: str, content: bytes, *, in_bundle: bool = False, on_index: bool = False) -> Pin:
    return Pin(name, hashlib.sha256(content).hexdigest(), len(content), in_bundle, on_index)


LITTLE = Pins(
    version="314.0.3",
    info={"abi_version": "2026_0", "arch": "wasm32", "platform": "emscripten_5_0_3", "python": "3.14.0"},
    core=tuple(pin(name, content, in_bundle=True) for name, content in CORE.items()),
    wheels=tuple(
        pin(name, content, in_bundle="quince" not in name, on_index="quince" in name)
        for name, content in WHEELS.items()
    ),
    bundle=pin("basket-1.2-py3-none-any.whl", BUNDLE),
    bundle_folder="basket/pyodide",
    tarball=pin("pyodide-314.0.3.tgz", TARBALL),
    digest="little",
)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> Pins:
    """The little Pyodide in place of the real one."""
    monkeypatch.setattr(pins, "load", lambda: LITTLE)
    return LITTLE


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache_dir=tmp_path / "cache", state_dir=tmp_path / "state")


@pytest.fixture
def wheelhouse(tmp_path: Path) -> Path:
    """A folder with every file of the little Pyodide."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@dataclass
class Served:
    """What a loopback server has, and what it was asked for."""

    address: str
    files: dict[str, bytes]
    asked: list[str] = field(default_factory=list)


Serve = Callable[[dict[str, bytes]], Served]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Serve files on loopback."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(files: dict[str, bytes]) -> Served:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.asked.append(self.path)
                content = served.files.get(self.path.lstrip("/"))
                self.send_response(200 if content is not None else 404)
                self.send_header("Content-Length", str(len(content or b"")))
                self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        served = Served(f"http://127.0.0.1:{server.server_port}", files)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return served

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


UseIndex = Callable[[str], None]


@pytest.fixture
def use_index(monkeypatch: pytest.MonkeyPatch) -> Iterator[UseIndex]:
    """Set up pip for one index and nothing else, and forget what another one said."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)

    def use(address: str) -> None:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", address)
        lookup.forget()

    use("http://127.0.0.1:9/simple")
    yield use
    lookup.forget()


def page(*names: str) -> bytes:
    """An index's page about one project."""
    return "".join(f'<a href="../../files/{name}">{name}</a>' for name in names).encode()


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def fetched(source: Source, into: Path) -> dict[str, bytes]:
    source.fetch(LITTLE.files, into, in_silence)
    return contents(into)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def failure(source: Source, into: Path) -> str:
    with pytest.raises(Unavailable) as caught:
        source.fetch(LITTLE.files, into, in_silence)
    return str(caught.value)
