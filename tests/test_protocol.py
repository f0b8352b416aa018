"""One home of the protocol: its page, the TypeScript that is written from it, and what is checked at the door."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from importlib import resources

import pytest
from tests.pages import DOCS, ROOT
from tools import protocol_ts

from belljar.engines.kernel_workspace import KernelWorkspace
from belljar.engines.transport.frames import BrokenProtocol, decode
from belljar.errors import FileError
from belljar_kernel import protocol

# Written like fields in the page, without being fields of a message: what every Request and many answers have.
WORDS = {"id", "failure"}
COMMAND = "python tools/protocol_ts.py"
WRONG = {str: 5, int: "x", bool: 1, list: {}, dict: []}


def tables() -> dict[str, tuple[str, str]]:
    """Every message that the page describes: its fields and what `done` carries, as they are written."""
    rows: dict[str, tuple[str, str]] = {}
    for line in (DOCS / "protocol.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| `") else []
        names = re.findall(r"`([a-z_]+)`", cells[0]) if cells else []
        for name in names:
            assert name not in rows, f"the page describes {name} twice"
            rows[name] = (cells[1], cells[2] if len(cells) > 2 else "")
    return rows


def named(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", text))


MESSAGES = {**protocol.REQUESTS, **protocol.ORDERS, **protocol.EVENTS}


def test_the_page_describes_every_message_and_no_other():
    assert set(tables()) == set(MESSAGES)


@pytest.mark.parametrize("message", sorted(MESSAGES))
def test_the_page_names_every_field_of_a_message_and_no_other(message: str):
    fields, answer = tables()[message]
    assert set(MESSAGES[message]) - named(fields) == set(), "the page lacks these fields"
    known = {*MESSAGES, *MESSAGES[message], *WORDS}
    assert named(fields) - known == set(), "the page has fields that the protocol lacks"
    if message != "done":
        assert set(protocol.DONE.get(message, ())) - named(answer) == set(), "the page lacks these in `done`"


def test_the_page_has_every_word_for_a_failure_and_every_kind_of_part():
    page = (DOCS / "protocol.md").read_text("utf-8")
    assert {word for word in (*protocol.FILE_FAILURES, *protocol.PART_KINDS) if f"`{word}`" not in page} == set()


def test_the_host_has_a_sentence_for_every_word_for_a_failure():
    async def ask(request: dict[str, object]) -> dict[str, object]:
        return {"failure": request["path"], "detail": "errno 29"}

    sentences = {}
    for word in protocol.FILE_FAILURES:
        with pytest.raises(FileError) as caught:
            asyncio.run(KernelWorkspace(ask).delete(word))
        sentences[word] = str(caught.value)
    assert [word for word in sentences if "errno" in sentences[word]] == ["unknown"]
    assert len({*sentences.values()}) == len(sentences)


def test_the_page_describes_what_done_of_a_run_carries():
    page = (DOCS / "protocol.md").read_text("utf-8")
    listed = re.findall(r"^- `([a-z_]+)`:", page, flags=re.MULTILINE)
    assert listed == list(protocol.DONE["run"])


def test_only_requests_are_answered():
    assert set(protocol.DONE) <= set(protocol.REQUESTS)
    assert set(protocol.REPORTED) <= set(protocol.KERNEL_EVENTS)
    assert not set(protocol.REQUESTS) & set(protocol.ORDERS)


def test_results_and_values_fit_into_a_frame():
    assert protocol.RESULTS_BYTES + protocol.VALUE_BYTES < protocol.FRAME_BYTES
    assert protocol.RESULT_PARTS < protocol.FRAME_PARTS
    for piece in (protocol.STATE_PIECE_BYTES, protocol.FILE_PIECE_BYTES, protocol.HANDED_PIECE_BYTES):
        assert piece * 4 // 3 + (1 << 20) < protocol.FRAME_BYTES  # in base64


def test_typescript_has_the_constants_of_the_protocol():
    written = protocol_ts.TARGET.read_text("utf-8")
    assert written == protocol_ts.source(), f"protocol.ts is stale; run: {COMMAND}"


def test_the_command_writes_the_file_that_it_is_said_to_write():
    before = protocol_ts.TARGET.read_bytes()
    subprocess.run([sys.executable, *COMMAND.split()[1:]], cwd=ROOT, check=True, timeout=60)
    assert protocol_ts.TARGET.read_bytes() == before


def test_the_python_of_webassembly_is_the_one_that_is_pinned():
    pins = json.loads((resources.files("belljar.packages") / "pins.json").read_text("utf-8"))
    assert pins["info"]["python"].startswith(f"{protocol.WASM_PYTHON}.")


def complete(event: str) -> dict[str, object]:
    samples = {str: "x", int: 1, float: 1.5, bool: True, list: [], dict: {}, protocol.NULL: None}
    return {"type": event, "id": 1, **{name: samples[types[0]] for name, types in protocol.EVENTS[event].items()}}


@pytest.mark.parametrize("event", sorted(protocol.EVENTS))
def test_an_event_with_all_its_fields_is_taken(event: str):
    given = complete(event)
    assert decode(json.dumps(given).encode()) == given


@pytest.mark.parametrize(
    ("event", "field"), [(event, field) for event, fields in protocol.EVENTS.items() for field in fields]
)
def test_an_event_with_a_field_that_cannot_be_is_a_broken_protocol(event: str, field: str):
    given = complete(event)
    types = protocol.EVENTS[event][field]
    given[field] = WRONG[types[0]]
    with pytest.raises(BrokenProtocol, match=field):
        decode(json.dumps(given).encode())
    del given[field]
    if protocol.NULL in types:
        assert decode(json.dumps(given).encode()) == given
    else:
        with pytest.raises(BrokenProtocol, match=field):
            decode(json.dumps(given).encode())


@pytest.mark.parametrize("order", sorted({*protocol.REQUESTS, *protocol.ORDERS}))
def test_the_host_takes_no_message_that_only_it_sends(order: str):
    with pytest.raises(BrokenProtocol):
        decode(json.dumps({"type": order, "id": 1}).encode())
