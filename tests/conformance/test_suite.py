"""The suite itself: large enough, well named, and able to fail."""

from __future__ import annotations

import base64
import struct
import zlib
from collections import Counter
from contextlib import contextmanager
from typing import Any

import pytest

from belljar.engines.conformance import CASES, picture, run_case
from belljar.engines.conformance.case import Case, Raises, case, run
from belljar.engines.conformance.differences import DIFFERENCES, WITHOUT_WALLS
from belljar.engines.conformance.expect import error, ok
from belljar.engines.conformance.normalise import normalise
from belljar.errors import InvalidRequest
from belljar.execution import Execution, Logs, Result


class Canned:
    """A sandbox that answers what it was told to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def run(self, code: str, **arguments: Any) -> Execution:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def differences(answer: Any, case: Case) -> list[str]:
    @contextmanager
    def factory(limits: Any):
        yield Canned(answer)

    return run_case(factory, case)


def png(width: int, height: int, rows: bytes, colour: int = 2) -> str:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


def test_there_are_at_least_two_hundred_cases_with_names_of_their_own():
    assert len(CASES) >= 200
    assert [name for name, times in Counter(case.name for case in CASES).items() if times > 1] == []


def test_known_differences_name_cases_that_exist_and_give_a_reason():
    names = {case.name for case in CASES}
    for engine, known in {**DIFFERENCES, "those without walls": WITHOUT_WALLS}.items():
        assert set(known) <= names, engine
        assert all(known.values()), engine


def test_few_cases_wait_for_a_timeout():
    assert sum("slow" in case.tags for case in CASES) <= 8


GOOD = Execution(results=[Result(text="2", is_main_result=True)], value=2, execution_count=1)


def test_a_right_answer_has_no_differences():
    assert differences(GOOD, case("sum", run("1 + 1", ok(text="2", value=2)))) == []


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("logs", Logs(stderr=["surprise"])),
        ("value", 2.0),
        ("value", True),
        ("truncated", True),
        ("execution_count", 2),
        ("state", "reset"),
        ("sandbox_id", "not an id"),
        ("results", []),
        ("exit_code", 1),
        ("denials", ["x"]),
    ],
)
def test_a_field_that_the_case_does_not_name_is_compared_too(field, wrong):
    answer = Execution(**{**GOOD.__dict__, field: wrong})
    assert any(field in each for each in differences(answer, case("sum", run("1 + 1", ok(text="2", value=2)))))


def test_an_error_that_belljar_should_not_raise_is_a_difference():
    assert differences(InvalidRequest("no"), case("x", run("1", ok()))) == ["step 1: raised InvalidRequest: no"]
    assert differences(InvalidRequest("no code"), case("x", run("", Raises("InvalidRequest", ("code",))))) == []
    assert differences(GOOD, case("x", run("", Raises("InvalidRequest")))) == [
        "step 1: expected InvalidRequest, but nothing was raised"
    ]


def test_the_expected_traceback_is_derived_from_the_code():
    expected = error("ZeroDivisionError", "division by zero", line=2).resolve("x = 0\n1 / x", 1)
    assert expected["stderr"] == (
        'Traceback (most recent call last):\n  File "main.py", line 2, in <module>\n    1 / x\n'
        "ZeroDivisionError: division by zero\n"
    )


def test_the_normaliser_drops_carets_and_addresses_and_nothing_else():
    text = '  File "main.py", line 1\n    1 / 0\n    ~~^~~\n<f at 0x7f00aa11bb22>\n   x ^ y\n'
    seen = normalise(Execution(logs=Logs(stderr=[text])).to_dict())
    assert seen["stderr"] == '  File "main.py", line 1\n    1 / 0\n<f at 0x…>\n   x ^ y\n'


def test_the_normaliser_reduces_a_table_to_its_cells():
    html = '<div>\n<style scoped>\n x {}\n</style>\n<table border="1">\n  <tr>\n    <td>a  b</td>\n  </tr>\n</table>\n</div>'
    seen = normalise(Execution(results=[Result(html=html)]).to_dict())
    assert seen["results"][0]["html"] == "<div><table><tr><td>a  b</td></tr></table></div>"


@pytest.mark.parametrize(
    ("rows", "many"),
    [
        (b"\0\1\1\1\1\1\1" + b"\0\1\1\1\1\1\1", False),
        (b"\0\1\1\1\1\1\1" + b"\0\1\1\1\1\1\2", True),
        (b"\1\5\5\5\0\0\0" + b"\2\0\0\0\0\0\0", False),
        (b"\1\5\5\5\0\0\0" + b"\2\0\0\0\0\0\1", True),
        (b"\1\5\5\5\0\0\0" + b"\4\0\0\0\0\0\0", False),
        (b"\1\4\4\4\0\0\0" + b"\3\2\2\2\0\0\0", False),
    ],
)
def test_a_picture_tells_its_size_and_whether_it_has_colours(rows, many):
    assert picture.describe("png", png(2, 2, rows)) == {
        "format": "png",
        "width": 2,
        "height": 2,
        "more_than_one_colour": many,
    }


def test_what_is_no_picture_is_told_apart():
    seen = normalise(Execution(results=[Result(png=base64.b64encode(b"hello").decode())]).to_dict())
    assert seen["results"][0]["png"] == "not an image: not a PNG"
