"""Settings of this installation, read from the environment when asked for, never on import."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from belljar.errors import InvalidRequest

PREFIX = "BELLJAR_"


@dataclass(frozen=True)
class Settings:
    """Where things are kept and what the operator allows."""

    cache_dir: Path
    state_dir: Path
    allow_degraded: bool = False
    pool_size: int = 2
    reserve_size: int = 2
    wheelhouse: Path | None = None
    pyodide_mirror: str | None = None
    install_timeout_s: int = 300
    install_mb: int = 2048
    layers_mb: int = 8192
    package_sources: tuple[str, ...] = ()

    @classmethod
    def load(cls) -> Settings:
        """Read BELLJAR_* variables over the defaults.

        Raises:
            InvalidRequest: naming the variable that makes no sense.
        """
        return cls(
            cache_dir=_folder("CACHE_DIR", "XDG_CACHE_HOME", ".cache"),
            state_dir=_folder("STATE_DIR", "XDG_STATE_HOME", ".local/state"),
            allow_degraded=_flag("ALLOW_DEGRADED"),
            pool_size=_whole("POOL_SIZE", default=2, high=64),
            reserve_size=_whole("RESERVE_SIZE", default=2, high=64),
            wheelhouse=_given_folder("WHEELHOUSE"),
            pyodide_mirror=_address("PYODIDE_MIRROR"),
            install_timeout_s=_whole("INSTALL_TIMEOUT_S", default=300, high=3600),
            install_mb=_whole("INSTALL_MB", default=2048, high=1 << 20),
            layers_mb=_whole("LAYERS_MB", default=8192, high=1 << 20),
            package_sources=_addresses("PACKAGE_SOURCES"),
        )


def _folder(name: str, base: str, default: str) -> Path:
    if given := os.environ.get(PREFIX + name):
        return Path(given).expanduser().absolute()
    root = os.environ.get(base)
    return (Path(root) if root else Path.home() / default) / "belljar"


def _given_folder(name: str) -> Path | None:
    given = os.environ.get(PREFIX + name)
    return Path(given).expanduser().absolute() if given else None


def _address(name: str) -> str | None:
    text = os.environ.get(PREFIX + name, "").strip()
    return _checked_address(name, text) if text else None


def _addresses(name: str) -> tuple[str, ...]:
    """Folders, each with its slash at the end, so that none is the beginning of another name."""
    texts = os.environ.get(PREFIX + name, "").replace(",", " ").split()
    found = []
    for text in texts:
        scheme, _, rest = _checked_address(name, text).rstrip("/").partition("://")
        host, slash, path = rest.partition("/")
        found.append(f"{scheme.lower()}://{host.lower()}{slash}{path}/")
    return tuple(found)


def _checked_address(name: str, text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidRequest(f"{PREFIX}{name} must be an http(s) address of a folder")
    if "@" in parts.netloc:
        raise InvalidRequest(f"{PREFIX}{name} must not carry a name or password")
    return text


def _flag(name: str) -> bool:
    text = os.environ.get(PREFIX + name, "").strip().lower()
    if text in ("1", "true", "yes"):
        return True
    if text in ("", "0", "false", "no"):
        return False
    raise InvalidRequest(f"{PREFIX}{name} must be 1 or 0, not {text!r}")


def _whole(name: str, default: int, high: int) -> int:
    text = os.environ.get(PREFIX + name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or int(text) > high:
        raise InvalidRequest(f"{PREFIX}{name} must be a whole number from 0 to {high}, not {text!r}")
    return int(text)
