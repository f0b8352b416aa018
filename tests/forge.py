"""A forge on loopback: git repositories over HTTP, as the real ones serve them, and files, some of which are elsewhere."""

from __future__ import annotations

import http.server
import io
import os
import subprocess
import tarfile
import threading
from pathlib import Path

# A build backend that needs nothing: it packs its own folder's modules, after running `before.py` if there is one.
BACKEND = """
import glob, os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    if os.path.exists("before.py"):
        exec(open("before.py").read(), {})
    name, version = open("NAME").read().split()
    info, wheel = f"{name}-{version}.dist-info", f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w") as archive:
        for path in glob.glob("*.py"):
            archive.write(path)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\\n" for path in archive.namelist()))
    return wheel
"""


def project(name: str, version: str, files: dict[str, str], requires: str = "[]") -> dict[str, str]:
    """The files of a project that brings its own backend."""
    table = f'[build-system]\nrequires = {requires}\nbuild-backend = "maker"\nbackend-path = ["backend"]\n'
    return {"pyproject.toml": table, "backend/maker.py": BACKEND, "NAME": f"{name} {version}", **files}


def packed(files: dict[str, str], top: str = "project-1.0") -> bytes:
    """A source distribution."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size, member.mtime = len(text), 1_700_000_000
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


class Forge:
    """What it has, and what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, bytes] = {}
        self.elsewhere: dict[str, str] = {}  # redirects
        self.asked: list[str] = []
        forge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                forge.asked.append(path)
                if ".git/" in path:
                    return self.serve_git(path, query)
                to, content = forge.elsewhere.get(path), forge.files.get(path)
                self.send_response(302 if to else 200 if content is not None else 404)
                if to:
                    self.send_header("Location", to)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")
                return None

            do_POST = do_GET  # noqa: N815

            def serve_git(self, path: str, query: str) -> None:
                env = {
                    "GIT_PROJECT_ROOT": str(forge.folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                    "QUERY_STRING": query, "REQUEST_METHOD": self.command, "PATH": os.environ["PATH"],
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "GIT_CONFIG_NOSYSTEM": "1",
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_CONFIG_COUNT": "1",
                    "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
                }  # fmt: skip
                length = self.headers.get("Content-Length")
                body = self.rfile.read(int(length)) if length else b""
                done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True)
                head, _, rest = done.stdout.partition(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
                self.send_response(int(fields.pop("Status", "200").split()[0]))
                for name, value in {**fields, "Content-Length": str(len(rest))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(rest)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def commit(self, name: str, files: dict[str, str], tag: str | None = None) -> str:
        """Add a commit to a repository, made if need be; its address."""
        work, bare = self.folder / "work" / name, self.folder / f"{name}.git"
        if not work.exists():
            self._git("init", "--quiet", "--initial-branch=main", str(work))
            self._git("init", "--quiet", "--bare", "--initial-branch=main", str(bare))
        for path, text in files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text(text)
        self._git("-C", str(work), "add", "--all")
        self._git("-C", str(work), "commit", "--quiet", "--message", "A step")
        if tag:
            self._git("-C", str(work), "tag", tag)
        self._git("-C", str(work), "push", "--quiet", str(bare), "main", *(["refs/tags/" + tag] if tag else []))
        return f"git+{self.address}/{name}.git"

    def close(self) -> None:
        """Shut it."""
        self.server.shutdown()
        self.server.server_close()

    def _git(self, *arguments: str) -> None:
        someone = {f"GIT_{who}_{what}": "someone" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = {**someone, "PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *arguments], env=env, check=True, capture_output=True)
