"""Running hostile code whose outcome is its value."""

from __future__ import annotations

import textwrap
from typing import Any

from belljar import Sandbox


def tried(sandbox: Sandbox, code: str, **args: Any) -> Any:
    """What came of it; the code itself must not fail."""
    return sandbox.run(textwrap.dedent(code), args=args).raise_for_status().value
