"""When typed Python is complete enough to run. Compiles to find out, and never executes."""

from __future__ import annotations

import ast
import codeop
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COMPILER = codeop.CommandCompiler()
_COMPILER.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

_OPENS_BLOCK = re.compile(r"(async|class|def|for|if|match|try|while|with)\b|@")
_GOES_ON = re.compile(r"(elif|else|except|finally)\b")


def is_complete(text: str) -> bool:
    """Whether the text is code that could run, or that no more lines could save."""
    try:
        return _COMPILER(text, symbol="exec") is not None
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return True


def is_ready(text: str) -> bool:
    """Whether Enter at the end of the text should run it: a block needs an empty line first, as in Python itself."""
    last = text.rsplit("\n", 1)[-1]
    return is_complete(text) and not (last.strip() and last[0] in " \t")


def next_indent(text: str) -> str:
    """The white space that the line after the text should start with."""
    last = text.rsplit("\n", 1)[-1]
    indent = last[: len(last) - len(last.lstrip())]
    word = last.strip()
    if word.endswith(":"):
        return indent + "    "
    if re.match(r"(return|raise|pass|break|continue)\b", word):
        return indent[:-4]
    return indent


def split(lines: Iterable[str]) -> Iterator[str]:
    """Cut a script into cells, each as soon as it is known to be over.

    A plain statement is a cell by itself. A block lasts until an empty line, or a line that starts a new statement.
    """
    cell = ""
    for line in lines:
        starts = bool(line.strip()) and line[0] not in " \t" and not _GOES_ON.match(line)
        if cell and is_complete(cell) and (starts or not line.strip()):
            yield cell
            cell = ""
        if not cell and not line.strip():
            continue
        cell += line
        if is_complete(cell) and not _OPENS_BLOCK.match(cell):
            yield cell
            cell = ""
    if cell.strip():
        yield cell
