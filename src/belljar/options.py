"""The keyword arguments that several faces of a sandbox share, by name and type. Types only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from belljar.events import Event
from belljar.limits import Limits
from belljar.policy import Policy
from belljar.validation import Content

OnEvent = Callable[[Event], None]


class SandboxOptions(TypedDict, total=False):
    """What a sandbox can be made with, beside its engine."""

    packages: Sequence[str]
    files: Mapping[str, Content] | None
    env: Mapping[str, str] | None
    limits: Limits | None
    policy: Policy | None
    tools: Sequence[Callable[..., Any]] | None
    python: str | None
    durable: bool
    host: str | None
    name: str | None


class StreamOptions(TypedDict, total=False):
    """What a run can be given, beside its code."""

    timeout: float | None
    stdin: str | None
    env: Mapping[str, str] | None
    args: Any
    files: Mapping[str, Content] | None
    packages: Sequence[str] | None
    cwd: str | None


class RunOptions(StreamOptions, total=False):
    """StreamOptions plus `on_event`, a callback for events while the code runs."""

    on_event: OnEvent | None
