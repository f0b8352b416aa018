"""cloudpickle, which stands beside the kernel in every sandbox: where this installation has it. Never imported here."""

from __future__ import annotations

import functools
import hashlib
from importlib.util import find_spec
from pathlib import Path

from belljar.errors import PackageError

NAME = "cloudpickle"
INSIDE = ("belljar_inside", NAME)  # a package of ours, so that user code has its own cloudpickle or none


def folder() -> Path:
    """Where this installation has it.

    Raises:
        PackageError: when the installation is not whole.
    """
    spec = find_spec(NAME)
    if spec is None or not spec.submodule_search_locations:
        raise PackageError(f"{NAME} is missing, which comes with Belljar: `pip install {NAME}`")
    return Path(next(iter(spec.submodule_search_locations)))


@functools.cache
def files() -> dict[tuple[str, ...], bytes]:
    """What goes inside, by its path there.

    Raises:
        PackageError: when the installation is not whole.
    """
    found: dict[tuple[str, ...], bytes] = {(INSIDE[0], "__init__.py"): b""}
    found |= {(*INSIDE, path.name): path.read_bytes() for path in sorted(folder().glob("*.py"))}
    return found


def digest() -> str:
    """A name for its content."""
    sha = hashlib.sha256()
    for path, content in files().items():
        sha.update(b"%s %d\n" % ("/".join(path).encode(), len(content)))
        sha.update(content)
    return sha.hexdigest()
