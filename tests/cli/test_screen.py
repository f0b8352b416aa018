import base64
import io

import pytest

from belljar.execution import Result
from belljar.surfaces.cli.screen import Screen, result_text
from belljar.surfaces.cli.wording import one_line, to_bytes


def shown(*events, paint_error=None):
    out, err = io.BytesIO(), io.BytesIO()
    screen = Screen(out, err, paint_error)
    for event in events:
        screen.show(event)
    return out.getvalue(), err.getvalue()


def stdout(text):
    return {"type": "stdout", "text": text}


def main_result(**data):
    return {
        "type": "result",
        "data": {name.replace("_", "/"): value for name, value in data.items()},
        "metadata": {},
        "main": True,
    }


def test_output_is_passed_on_byte_for_byte():
    assert shown(stdout("a\r\nb\0\x1b[1mé"), {"type": "stderr", "text": "no newline"}) == (
        b"a\r\nb\0\x1b[1m\xc3\xa9",
        b"no newline",
    )


def test_a_result_starts_on_a_line_of_its_own():
    assert shown(stdout("a"), main_result(text_plain="4"))[0] == b"a\n4\n"
    assert shown(stdout("a\n"), main_result(text_plain="4"))[0] == b"a\n4\n"
    assert shown(main_result(text_plain="4"), stdout("b"))[0] == b"4\nb"


def test_an_image_is_not_printed():
    png = base64.b64encode(b"image").decode()
    assert shown(main_result(text_plain="<Figure>", image_png=png)) == (b"", b"")


def test_events_that_are_not_for_people_are_passed_over():
    call = {"type": "call", "call_id": 1, "name": "search", "args": {}}
    assert shown(call, {"type": "done", "status": "ok"}, {"type": "new"}) == (b"", b"")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (Result(text="t", html="<b>"), "t"),
        (Result(markdown="# m", html="<b>"), "# m"),
        (Result(json={"é": 1}), '{"é": 1}'),
        (Result(html="<b>"), "<b>"),
        (Result(text="t", svg="<svg>"), None),
        (Result(), None),
    ],
)
def test_a_result_is_shown_in_its_most_readable_text(result, text):
    assert result_text(result) == text


def test_lone_surrogates_never_stop_the_output():
    assert to_bytes("a\udcffb") == b"a\xffb"
    assert to_bytes("a\ud800b") == b"a\\ud800b"


def test_what_belljar_says_is_one_printable_line():
    assert one_line("a\nb\x1b[2Jc\u202ed") == "a b\\x1b[2Jc\\x202ed"
