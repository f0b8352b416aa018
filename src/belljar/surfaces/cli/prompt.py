"""The line editor of the REPL: history, highlighting, completion and blocks. Runs nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.filters import completion_is_selected, has_selection
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers import Python3Lexer

from belljar.errors import SandboxError
from belljar.settings import Settings
from belljar.surfaces.cli import cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prompt_toolkit.document import Document

    from belljar.sandbox import Sandbox

_PROMPT = FormattedText([("ansigreen", ">>> ")])
_CONTINUATION = FormattedText([("ansigreen", "... ")])


class LiveNames(Completer):
    """Completes from the names that are alive in the sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        try:
            found = self._sandbox.complete(document.text, document.cursor_position)
        except SandboxError:
            return
        for item in found:
            yield Completion(item.text, item.start - document.cursor_position, display_meta=item.type)


def read_cells(sandbox: Sandbox) -> Iterator[str]:
    """Each piece of code that the user enters, until Ctrl-D."""
    session: PromptSession[str] = PromptSession(
        message=_PROMPT,
        prompt_continuation=lambda *_: _CONTINUATION,
        multiline=True,
        history=_history(),
        lexer=PygmentsLexer(Python3Lexer),
        completer=ThreadedCompleter(LiveNames(sandbox)),
        complete_while_typing=False,
        key_bindings=_keys(),
        include_default_pygments_style=True,
    )
    while True:
        try:
            text = session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip():
            yield text


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~has_selection & ~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        document = buffer.document
        at_end = not document.text_after_cursor.strip()
        text = document.text.strip()
        if at_end and (not text or text.startswith("%") or cells.is_ready(document.text_before_cursor)):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n" + cells.next_indent(document.text_before_cursor))

    @keys.add("enter", filter=completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("tab")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if not buffer.document.current_line_before_cursor.strip():
            buffer.insert_text("    ")
        elif buffer.complete_state:
            buffer.complete_next()
        else:
            buffer.start_completion(insert_common_part=True)

    return keys


def _history() -> History:
    """History in the user's state folder, readable by them alone; in memory where that cannot be written."""
    path = Settings.load().state_dir / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
