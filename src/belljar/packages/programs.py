"""Programs that come with Belljar as wheels; found beside its own Python first, then on the PATH."""

from __future__ import annotations

import os
import shutil
import sys

from belljar.errors import PackageError


def find_program(name: str) -> str:
    """The path of a program that came with Belljar.

    Raises:
        PackageError: when there is none.
    """
    found = shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
    if found is None:
        raise PackageError(f"{name} is missing, which comes with Belljar: `pip install {name}`")
    return found
