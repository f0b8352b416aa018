"""A Jupyter kernel: Python that keeps state, without any wall, driven by jupyter_client as notebooks do."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.peers import plain

NAME = "ipykernel"


def absent() -> str | None:
    """Why it cannot be measured here; None when it can."""
    missing = [name for name in ("ipykernel", "jupyter_client") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)} not installed (the dev extra has both)" if missing else None


class Notebook:
    """One live kernel."""

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        self._manager, self._client = start_new_kernel(
            kernel_name="python3", env=plain.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    @property
    def pid(self) -> int:
        """The kernel's process."""
        provisioner: Any = self._manager.provisioner
        return int(provisioner.pid)

    def run(self, code: str) -> None:
        """Run a cell and wait for its reply and its result."""
        reply = self._client.execute_interactive(code, timeout=60, output_hook=_ignore)
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"the kernel refused the cell: {reply['content']}")

    def close(self) -> None:
        """End the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@contextmanager
def notebook() -> Iterator[Notebook]:
    """A kernel that ends with the block."""
    kernel = Notebook()
    try:
        yield kernel
    finally:
        kernel.close()


def _ignore(message: dict[str, Any]) -> None:
    """Results arrive here; that they did is what is measured."""
