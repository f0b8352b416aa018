"""The keys that checkpoints are signed with: one of this installation, made once, and those it was told to trust."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path

from belljar.errors import InvalidRequest, SandboxError
from belljar.settings import Settings

KEY_BYTES = 32
ID_BYTES = 8
PREFIX = "belljar-key-"
_OWN, _TRUSTED = "checkpoint.key", "trusted-keys"


def own_key(state_dir: Path) -> bytes:
    """The key of this installation, made at first use.

    Raises:
        SandboxError: when others may know it, or it is damaged, or it cannot be made.
    """
    path = state_dir / _OWN
    if not path.exists():
        try:
            _make(path)
        except OSError as failure:
            raise SandboxError(
                f"the key {path} could not be made ({failure.strerror}); make room there, or set BELLJAR_STATE_DIR to "
                "another folder"
            ) from failure
    return _read(path)


def known_keys(state_dir: Path) -> dict[bytes, bytes]:
    """Every key that a checkpoint may be signed with, by its id."""
    keys = [own_key(state_dir)]
    folder = state_dir / _TRUSTED
    if folder.is_dir():
        keys += [_read(path) for path in sorted(folder.glob("*.key"))]
    return {id_of(key): key for key in keys}


def id_of(key: bytes) -> bytes:
    """What names a key without giving it away."""
    return hashlib.sha256(b"belljar key id\0" + key).digest()[:ID_BYTES]


def export_key(state_dir: Path | None = None) -> str:
    """The key of this installation as text. Who has it can make checkpoints that this installation trusts."""
    return PREFIX + own_key(state_dir or Settings.load().state_dir).hex()


def import_key(text: str, state_dir: Path | None = None) -> None:
    """Trust the checkpoints of another installation.

    Raises:
        InvalidRequest: when it is not what export_key() gives.
    """
    match = re.fullmatch(f"{PREFIX}([0-9a-f]{{{2 * KEY_BYTES}}})", text.strip())
    if match is None:
        raise InvalidRequest("that is no key of a Belljar installation; belljar.state.keys.export_key() there gives it")
    key = bytes.fromhex(match[1])
    folder = (state_dir or Settings.load().state_dir) / _TRUSTED
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{id_of(key).hex()}.key"
    if not path.exists():
        fresh = folder / f".{secrets.token_hex(8)}"
        _write(fresh, key)
        fresh.rename(path)


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{_OWN}-{secrets.token_hex(8)}")
    try:
        _write(fresh, secrets.token_bytes(KEY_BYTES))
        with contextlib.suppress(FileExistsError):  # another process was first: its key it is
            os.link(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _write(path: Path, key: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would never open
        with open(descriptor, "rb") as file:
            facts, key = os.fstat(descriptor), file.read(KEY_BYTES + 1)
    except OSError as failure:
        raise SandboxError(
            f"the key {path} cannot be read ({failure.strerror}); put it back, or remove it"
        ) from failure
    if os.name == "posix" and facts.st_mode & 0o077:
        raise SandboxError(f"others may read the key {path}; `chmod 600` it, or delete it if they may have")
    if os.name == "posix" and facts.st_uid != os.geteuid():
        raise SandboxError(f"the key {path} belongs to another user, who knows it; delete it, or `chown` it")
    if len(key) != KEY_BYTES:
        raise SandboxError(f"the key {path} is damaged; put it back, or delete it and lose what was signed with it")
    return key
