"""Errors of the user's code as data: CPython's format, user frames only. Hostile exceptions are shown, not obeyed."""

from __future__ import annotations

import os
from linecache import getline
from traceback import FrameSummary, TracebackException

from belljar_kernel import source
from belljar_kernel.codes import code_of
from belljar_kernel.slots import cause_of, class_name, context_of, is_a, slot_of, traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VALUE_CHARS = 64 * 1024
TRACEBACK_CHARS = 256 * 1024
_LINE_CHARS = 2000
_FRAMES = -1100  # the innermost, about as many as CPython prints
_CHAIN = 64


def describe(error: BaseException, cell: str, workspace: str, compiling: bool, interrupted: bool) -> dict[str, Any]:
    """The `error` object of the protocol. `cell` is the file name of this run's code."""
    return {
        "name": name_of(error),
        "value": cap(text_of(error), VALUE_CHARS),
        "traceback": render(error, workspace, compiling),
        "line": _syntax_line(error) if compiling else _line_in(error, cell),
        "code": code_of(error, compiling, interrupted, innermost_line(error)),
    }


def render(error: BaseException, workspace: str, compiling: bool = False) -> str:
    """The traceback as CPython would print it, without frames that are not the user's."""
    try:
        source.refresh_lines()
        text = _render(error, workspace, compiling)
    except Exception:
        text = _render_plainly(error, workspace)
    return cap(text, TRACEBACK_CHARS)


def name_of(error: BaseException) -> str:
    """The class's own name, which a metaclass cannot change."""
    return class_name(type(error))


def text_of(error: BaseException) -> str:
    """The exception's text, in the words of CPython when it has none."""
    try:
        text = str.__str__(str(error))
    except Exception:
        return "<exception str() failed>"
    if is_a(error, SyntaxError):
        filename = slot_of(error, SyntaxError, "filename")
        if type(filename) is str and source.is_cell(filename):
            text = text.replace(f"({filename}, line ", f"({source.SHOWN}, line ")
    return text


def cap(text: str, limit: int) -> str:
    """The text, or its two ends with an explicit mark between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def chain_of(error: BaseException) -> list[BaseException]:
    """The exception and what it came from, at most a few more than can be shown."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) <= _CHAIN and not any(link is seen for seen in chain):
        chain.append(link)
        cause = cause_of(link)
        link = context_of(link) if cause is None else cause
    return chain


def comes_from(error: BaseException, kind: type[BaseException]) -> bool:
    """Whether the exception is of that kind, or was raised because of one that is."""
    return any(is_a(link, kind) for link in chain_of(error))


def innermost_line(error: BaseException) -> str:
    """The source line that raised, wherever it is."""
    tb = traceback_of(error)
    if tb is None:
        return ""
    while tb.tb_next is not None:
        tb = tb.tb_next
    try:
        return getline(tb.tb_frame.f_code.co_filename, tb.tb_lineno)[:_LINE_CHARS]
    except Exception:
        return ""


def _line_in(error: BaseException, cell: str) -> int | None:
    tb = traceback_of(error)
    line = None
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == cell:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


def _syntax_line(error: BaseException) -> int | None:
    line = slot_of(error, SyntaxError, "lineno") if is_a(error, SyntaxError) else None
    return line if type(line) is int else None


def _render(error: BaseException, workspace: str, compiling: bool) -> str:
    chain = chain_of(error)
    # An endless chain is cut by telling the formatter that it has seen the next link.
    seen = {id(chain[-1])} if len(chain) > _CHAIN else None
    tb = None if compiling else traceback_of(error)
    formatted = TracebackException(type(error), error, tb, limit=_FRAMES, compact=True, _seen=seen)  # type: ignore[call-arg, unused-ignore]
    _clean(formatted, workspace, set())
    parts, size = [], 0
    for part in formatted.format():
        parts.append(part)
        size += len(part)
        if size > 4 * TRACEBACK_CHARS:
            parts.append("…\n")
            break
    return "".join(parts)


def _render_plainly(error: BaseException, workspace: str) -> str:
    """Without the standard library, for exceptions that it cannot format or code that has broken it."""
    lines = ["Traceback (most recent call last):\n"]
    tb = traceback_of(error)
    while tb is not None:
        code = tb.tb_frame.f_code
        if is_user_file(code.co_filename, workspace):
            name = source.SHOWN if source.is_cell(code.co_filename) else code.co_filename
            lines.append(f'  File "{name}", line {tb.tb_lineno}, in {code.co_name}\n')
            line = source.line_of(code.co_filename, tb.tb_lineno)
            if line:
                lines.append(f"    {line[:_LINE_CHARS]}\n")
        tb = tb.tb_next
    return "".join([*lines[:200], *lines[200:][-200:], f"{name_of(error)}: {cap(text_of(error), VALUE_CHARS)}\n"])


def _clean(formatted: TracebackException, workspace: str, seen: set[int]) -> None:
    pending = [formatted]
    while pending:
        current: Any = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current._str = cap(str(current._str), VALUE_CHARS)
        notes = getattr(current, "__notes__", None)
        if type(notes) is list:
            current.__notes__ = [cap(note, VALUE_CHARS) if type(note) is str else note for note in notes[:100]]
        if type(getattr(current, "filename", None)) is str:
            _clean_syntax(current)
        if current.stack is not None:
            frames = [_shown(frame) for frame in current.stack if is_user_file(frame.filename, workspace)]
            current.stack[:] = frames
        pending += [current.__cause__, current.__context__, *(getattr(current, "exceptions", None) or ())]


def _clean_syntax(formatted: Any) -> None:
    if source.is_cell(formatted.filename):
        formatted.filename = source.SHOWN
    if formatted.text is not None and (type(formatted.text) is not str or len(formatted.text) > _LINE_CHARS):
        formatted.text = None


def _shown(frame: FrameSummary) -> FrameSummary:
    line = frame.line
    if line is not None and len(line) > _LINE_CHARS:
        frame = FrameSummary(frame.filename, frame.lineno, frame.name, lookup_line=False, line=line[:200] + " …")
    if source.is_cell(frame.filename):
        frame.filename = source.SHOWN
    return frame


def is_user_file(filename: str, workspace: str) -> bool:
    """Whether code of that file is the user's: of any run, run by `exec`, or a module of the workspace."""
    if source.is_cell(filename) or filename == "<string>":
        return True
    return filename.startswith(workspace + os.sep) and "-packages/" not in filename
