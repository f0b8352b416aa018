"""The runtime of one host's wasm sandboxes: assembled at its first use, then the same folder for all of them."""

from __future__ import annotations

import threading
from pathlib import Path

from belljar.engines.wasm.assembly import Runtime, is_assembled, runtime_of
from belljar.engines.wasm.layer import pack_layer
from belljar.packages import pyodide
from belljar.packages.bounded import Budget
from belljar.packages.progress import Progress, in_silence, part_of
from belljar.settings import Settings


class AssembledRuntime:
    """Assembles the runtime once. Any thread may ask for it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._runtime: Runtime | None = None
        self._lock = threading.Lock()

    @property
    def present(self) -> Runtime | None:
        """The runtime, if it was asked for before."""
        return self._runtime

    @property
    def is_assembled(self) -> bool:
        """Whether `get` returns at once."""
        if self._runtime is not None:
            return True
        cache = self._settings.cache_dir
        return pyodide.is_prepared(cache) and is_assembled(pyodide.pyodide_set(cache, self._settings), cache)

    def get(self, progress: Progress = in_silence) -> Runtime:
        """The runtime, assembled first when it must be. Blocks.

        Raises:
            PackageError: when the packages in it cannot be had.
            StartFailed: when it cannot be assembled.
        """
        with self._lock:
            if self._runtime is None:
                cache = self._settings.cache_dir
                found = pyodide.pyodide_set(cache, self._settings, part_of(progress, 0.0, 0.5))
                self._runtime = runtime_of(found, cache, part_of(progress, 0.5, 1.0))
            return self._runtime

    def digest(self, progress: Progress) -> str:
        """The digest of the runtime, which is assembled first when it must be. Blocks."""
        return self.get(progress).digest

    def pack(self, layer: Path, budget: Budget) -> None:
        """Put a layer's packages into the form that a sandbox takes. Blocks."""
        pack_layer(layer, self.get(), budget)
