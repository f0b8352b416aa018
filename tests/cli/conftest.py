"""The installed command as a user has it: a process of its own, with its own state folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminal import Terminal

COMMAND = [sys.executable, "-m", "belljar"]


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "BELLJAR_STATE_DIR": str(tmp_path / "state"), "TERM": "xterm-256color"}


@pytest.fixture
def home(tmp_path) -> Path:
    """The current folder of the commands."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def belljar(environment, home):
    """Run a command and return what it did, in bytes."""

    def run(*arguments, input=b""):
        return subprocess.run(
            [*COMMAND, *arguments], input=input, capture_output=True, env=environment, cwd=home, timeout=120
        )

    return run


@pytest.fixture
def terminal(environment, home):
    """Start a command on a terminal."""
    opened = []

    def start(*arguments):
        opened.append(Terminal([*COMMAND, *arguments], env=environment, cwd=home))
        return opened[-1]

    yield start
    for each in opened:
        each.close()
