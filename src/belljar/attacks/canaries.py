"""Things on this machine that a sandbox must neither see nor touch. They tell when one did."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path

VARIABLE = "ATTACK_CANARY"


class Canaries:
    """A file, a variable, and listeners: unix by path and by abstract name, TCP and UDP on the loopback."""

    def __init__(self) -> None:
        self.secret = secrets.token_hex(16)
        self.folder = Path(tempfile.mkdtemp(prefix="belljar-attack-"))
        self.folder.chmod(0o755)
        self.file = self.folder / "secret.txt"
        self.file.write_text(self.secret)
        self.file.chmod(0o666)  # nothing but the wall protects it
        os.environ[VARIABLE] = self.secret
        self.abstract = f"belljar-attack-{secrets.token_hex(8)}"
        self.path_socket = self.folder / "socket"
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._by_path, self._by_name = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self._by_path.bind(str(self.path_socket))
        self._by_name.bind(f"\0{self.abstract}")
        self.path_socket.chmod(0o777)
        for listener in (self._by_path, self._by_name):
            listener.listen()
        for end in (self._tcp, self._udp, self._by_path, self._by_name):
            end.setblocking(False)
        self._before = self._facts()

    def places(self) -> dict[str, object]:
        """Where they are, for the attacker; the secret is not told."""
        return {
            "file": str(self.file),
            "folder": str(self.folder),
            "variable": VARIABLE,
            "tcp": self._tcp.getsockname()[1],
            "udp": self._udp.getsockname()[1],
            "socket": str(self.path_socket),
            "abstract": self.abstract,
        }

    def seen_in(self, text: str) -> list[str]:
        """The problem, when the secret came out."""
        return ["the secret of the canary came out of the sandbox"] if self.secret in text else []

    def disturbed(self) -> list[str]:
        """What was touched."""
        problems = []
        if self._facts() != self._before:
            problems.append("the canary file or its folder was changed")
        listeners = {"TCP": self._tcp, "unix path": self._by_path, "abstract unix": self._by_name}
        for name, listener in listeners.items():
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
                problems.append(f"the {name} canary was connected to")
        with contextlib.suppress(BlockingIOError):
            self._udp.recv(65536)
            problems.append("the UDP canary was sent to")
        return problems

    def close(self) -> None:
        """Take them away."""
        for end in (self._tcp, self._udp, self._by_path, self._by_name):
            end.close()
        os.environ.pop(VARIABLE, None)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _facts(self) -> tuple[object, ...]:
        file, folder = self.file.stat(), self.folder.stat()
        content = self.file.read_text()
        return content, file.st_ctime_ns, file.st_mode, folder.st_ctime_ns, sorted(os.listdir(self.folder))
