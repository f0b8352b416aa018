"""What a command line names, read and checked before any sandbox starts."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belljar.errors import InvalidRequest
from belljar.limits import Limits

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from belljar.sandbox import Sandbox


def read_code(source: str | None, code: str | None) -> str:
    """The code from -c, a file or standard input."""
    if code is not None:
        if source is not None:
            raise InvalidRequest("give a FILE or -c CODE, not both")
        return code
    if source in (None, "-"):
        if source is None and sys.stdin.isatty():
            raise InvalidRequest("no code: give a FILE, -c CODE, or - to type it in and end with Ctrl-D")
        return _decode(sys.stdin.buffer.read(), "standard input")
    return _decode(_read(str(source), "the code"), str(source))


def read_stdin(name: str | None, source: str | None, code: str | None) -> str | None:
    """What the code will read as its standard input, or None for nothing at all."""
    if name is None:
        return None
    if name != "-":
        return _read(name, "--stdin").decode("utf-8", "surrogateescape")
    if code is None and source in (None, "-"):
        raise InvalidRequest("standard input cannot be both the code and --stdin")
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def read_arguments(text: str | None) -> dict[str, Any]:
    """The value of --args as an option of `run`; none when there is no --args."""
    if text is None:
        return {}
    try:
        return {"args": json.loads(text)}
    except ValueError as error:
        raise InvalidRequest(f"--args is not JSON: {error}") from None


def read_files(specs: list[str]) -> dict[str, bytes]:
    """The content for each path in the workspace that --file names; folders with all they have."""
    contents: dict[str, bytes] = {}
    for spec in specs:
        source, destination = split_file(spec)
        for path, name in _walk(Path(source), destination):
            contents[name] = _read(str(path), "--file")
    return contents


def split_file(spec: str) -> tuple[str, str]:
    """SRC[:DST] as the source and its path in the workspace; a source may itself have a colon."""
    source, destination = spec, ""
    if not os.path.exists(spec) and ":" in spec:
        source, _, destination = spec.rpartition(":")
    name = os.path.basename(os.path.abspath(source))
    if not destination:
        return source, name
    return source, destination + name if destination.endswith("/") else destination


def limits_of(options: Namespace) -> Limits:
    """The limits that were asked for, defaults elsewhere."""
    asked = {"timeout_s": options.timeout, "memory_mb": options.memory}
    return Limits(**{name: value for name, value in asked.items() if value is not None})


def open_sandbox(options: Namespace, limits: Limits, files: dict[str, bytes]) -> Sandbox:
    """Start the sandbox that the options describe, with its files in place.

    A command has one sandbox, so none is kept ready behind it unless the user wants that.
    """
    from belljar import compose
    from belljar.policy import Policy
    from belljar.sandbox import Sandbox
    from belljar.settings import Settings

    settings = Settings.load()
    if "BELLJAR_POOL_SIZE" not in os.environ:
        settings = replace(settings, pool_size=0)
    if "BELLJAR_RESERVE_SIZE" not in os.environ:
        settings = replace(settings, reserve_size=0)
    compose.local_host(settings)
    policy = Policy(network=tuple(options.hosts))
    if not compose.is_prepared(options.engine):
        from belljar.surfaces.cli.progress import progress

        with progress() as report:
            compose.base_environment(options.engine, report)
    return Sandbox(options.engine, packages=tuple(options.packages), files=files, limits=limits, policy=policy)


def _walk(source: Path, destination: str) -> Iterator[tuple[Path, str]]:
    if not source.is_dir():
        yield source, destination
        return
    for path in sorted(source.rglob("*")):
        if path.is_file():
            yield path, f"{destination}/{path.relative_to(source).as_posix()}"


def _read(name: str, purpose: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InvalidRequest(f"cannot read {name} for {purpose}: {error.strerror}") from None


def _decode(source: bytes, name: str) -> str:
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        import io
        import tokenize

        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
            return source.decode(encoding)
        except (SyntaxError, UnicodeDecodeError, LookupError):
            raise InvalidRequest(f"{name} is not UTF-8 and declares no other encoding: {error}") from None
