"""Pyodide's own files out of its package for Node, fetched by Deno's client with the user's own settings."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from belljar.packages.pins import Pin, Pins
from belljar.packages.programs import find_program
from belljar.packages.progress import Progress
from belljar.packages.sources.base import Unavailable, accept, take_each

LONGEST_S = 120.0


class Node:
    """Only the core is there, no wheel; with it, the CDN's address becomes known."""

    name = "the Node package"

    def __init__(self, pins: Pins) -> None:
        self._pins = pins

    def fetch(self, wanted: Sequence[Pin], into: Path, progress: Progress) -> None:
        core = [pin for pin in wanted if pin in self._pins.core]
        if not core:
            raise Unavailable("it has no wheels")
        progress("Downloading Pyodide", None)
        scratch = into / "node"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        try:
            folder = self._cached(scratch)

            def take(pin: Pin) -> None:
                try:
                    with open(folder / pin.name, "rb") as file:
                        accept(pin, file.read, into, self.name)
                except FileNotFoundError:
                    raise Unavailable(f"it has no {pin.name}") from None

            take_each(core, take)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if len(core) < len(wanted):
            raise Unavailable("it has no wheels")

    def _cached(self, scratch: Path) -> Path:
        package = f"npm:pyodide@{self._pins.version}"
        argv = [find_program("deno"), "cache", "--quiet", "--no-lock", "--no-config", package]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DENO_")}
        kept |= {"DENO_DIR": str(scratch), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}
        try:
            done = subprocess.run(
                argv, cwd=scratch, env=kept, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=LONGEST_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unavailable(f"deno was not done within {LONGEST_S:.0f} s") from None
        if done.returncode:
            raise Unavailable(f"deno said: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}")
        for loader in sorted(scratch.rglob("pyodide.mjs")):
            return loader.parent
        raise Unavailable("deno fetched it, but where it lies is not known")
