"""The source of each run: its name, its lines for tracebacks and `inspect`, and its parts as code. Runs nothing."""

from __future__ import annotations

import linecache
from _ast import Expr, Expression, Module, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

SHOWN = "main.py"
_KEPT = 2000
FUTURES = 0x1FE0000  # the compiler flags of `from __future__ import …`, which later cells inherit as in notebooks
_sources: dict[str, str] = {}


class Cell:
    """The code of one run, compiled: what to execute, and the last expression unless a semicolon silences it."""

    def __init__(self, source: str, count: int, flags: int = 0) -> None:
        """Register and compile.

        Raises:
            SyntaxError: for everything that is no Python, also NUL bytes, lone surrogates and nesting without end.
        """
        self.name = SHOWN if count <= 1 else f"{SHOWN}[{count}]"
        source = source.removeprefix("\ufeff")
        _remember(self.name, source)
        try:
            self.body, self.last, self.flags = compile_parts(self.name, source, flags)
        except SyntaxError as error:
            if error.text is None and error.lineno:  # found by the compiler, which has no source at hand
                error.text = line_of(self.name, error.lineno) or None
            raise
        except UnicodeEncodeError:
            raise SyntaxError("the source has lone surrogates, which are not text") from None
        except (MemoryError, RecursionError) as error:
            if len(source) > 1_000_000:
                raise
            raise SyntaxError(f"the source is nested too deeply ({type(error).__name__} in the parser)") from None
        except ValueError as error:
            raise SyntaxError(str(error)) from None


def compile_parts(name: str, source: str, flags: int) -> tuple[CodeType, CodeType | None, int]:
    """What to execute, the last expression unless a semicolon silences it, and the `__future__` of both."""
    flags |= PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(source, name, "exec", flags | PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, Module)
    statement = tree.body[-1] if tree.body else None
    last = None
    if isinstance(statement, Expr) and not _silenced(source, statement):
        del tree.body[-1]
        last = Expression(statement.value)
    body: CodeType = compile(tree, name, "exec", flags, dont_inherit=True)
    flags |= body.co_flags & FUTURES
    value: CodeType | None = None
    if last is not None:
        value = compile(last, name, "eval", flags, dont_inherit=True)
    return body, value, flags & FUTURES


def is_cell(filename: str) -> bool:
    """Whether code with this file name came from a run."""
    return filename in _sources


def text_of(filename: str) -> str | None:
    """The code of a run, from memory."""
    return _sources.get(filename)


def all_texts() -> dict[str, str]:
    """The code of every run that is remembered, the oldest first."""
    return dict(_sources)


def remember(texts: dict[str, str]) -> None:
    """Know the code of runs that another kernel had."""
    for name, text in texts.items():
        _remember(name, text)


def compiled(filename: str, text: str, flags: int = 0) -> tuple[CodeType, ...]:
    """The parts of a run's code, for somebody who looks for code in them.

    Raises:
        SyntaxError: when this Python does not know it.
    """
    body, last, _ = compile_parts(filename, text, flags)
    return (body,) if last is None else (body, last)


def line_of(filename: str, number: int) -> str:
    """A line of a run's code, from memory."""
    lines = _lines(_sources[filename]) if filename in _sources else []
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def refresh_lines() -> None:
    """Give `linecache` back what the code may have cleared."""
    for name, source in _sources.items():
        if name not in linecache.cache:
            _register(name, source)


def _silenced(source: str, statement: Expr) -> bool:
    last_line = _lines(source)[(statement.end_lineno or 0) - 1]
    rest = last_line.encode("utf-8")[statement.end_col_offset :]
    return rest.lstrip(b" \t\f").startswith(b";")


def _remember(name: str, source: str) -> None:
    _sources.pop(name, None)
    _sources[name] = source
    if len(_sources) > _KEPT:
        oldest = next(iter(_sources))
        del _sources[oldest]
        linecache.cache.pop(oldest, None)
    _register(name, source)


def _register(name: str, source: str) -> None:
    if type(linecache.cache) is not dict:
        linecache.cache = {}
    # Without a modification time linecache never looks for a file of that name.
    linecache.cache[name] = (len(source), None, _lines(source), name)


def _lines(source: str) -> list[str]:
    return [line + "\n" for line in source.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
