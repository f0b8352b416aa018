"""A Checkpoint: a saved state that outlives its sandbox, as a value. Never unpickled here, only carried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from belljar.errors import CheckpointRefused
from belljar.settings import Settings
from belljar.state.envelope import Opened, unseal
from belljar.state.keys import known_keys


@dataclass(frozen=True)
class CheckpointReport:
    """Which names are there, and which are not and why; files that are not, by path; packages, as asked for."""

    saved: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    files_skipped: dict[str, str] = field(default_factory=dict)
    packages_skipped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """A saved state of a sandbox.

    `skipped` has the reason for each name that could not be saved. `python` and `engine` are those it was saved on.
    """

    id: str
    engine: str
    python: str
    saved: list[str]
    skipped: dict[str, str]
    files_skipped: dict[str, str]
    name: str | None
    created: float
    packages: list[str] = field(repr=False)
    owner: str = field(repr=False)
    _bytes: bytes = field(repr=False)
    parent: str | None = None  # the id of the checkpoint before it: with the names, a tree

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self._bytes)

    def to_bytes(self) -> bytes:
        """Portable bytes, signed with the key of this installation."""
        return self._bytes

    @classmethod
    def from_bytes(cls, data: bytes, *, owner: str = "") -> Checkpoint:
        """The checkpoint in bytes that this installation, or one that it trusts, has signed for this owner.

        Raises:
            CheckpointRefused: for all others.
        """
        return cls.of(opened(data, Settings.load(), owner).header, bytes(data))

    @classmethod
    def of(cls, header: dict[str, Any], data: bytes) -> Checkpoint:
        """The checkpoint that bytes with this header are; the caller has checked them."""
        names = ("id", "engine", "python", "saved", "skipped", "files_skipped", "name", "created", "packages", "owner")
        return cls(**{name: header[name] for name in names}, _bytes=data, parent=header.get("parent"))

    def opened(self, settings: Settings) -> Opened:
        """Its parts, once its signature was checked again: whoever made this object may have lied.

        Raises:
            CheckpointRefused: when it is not as it was signed.
        """
        return opened(self._bytes, settings, self.owner)


def opened(data: object, settings: Settings, owner: str) -> Opened:
    """The parts of a checkpoint in bytes, once its signature was checked.

    Raises:
        CheckpointRefused: when it was not signed by this installation, or one that it trusts, for this owner.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CheckpointRefused(f"a checkpoint is bytes, not {type(data).__name__}")
    return unseal(bytes(data), known_keys(settings.state_dir), owner)
