import re

import pytest

from belljar.surfaces.cli.colours import paint_error

TRACEBACK = 'Traceback (most recent call last):\n  File "main.py", line 1, in <module>\n    1 / 0\nZeroDivisionError: division by zero\n'


@pytest.mark.parametrize(
    "text", [TRACEBACK, "a warning\n", '  File "main.py", line 1\n    def f(:\nSyntaxError: invalid syntax\n\n']
)
def test_colour_is_all_that_is_added(monkeypatch, text):
    monkeypatch.delenv("NO_COLOR", raising=False)
    painted = paint_error(text)
    assert painted != text
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == text


def test_no_colour_when_the_user_wants_none(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint_error(TRACEBACK) == TRACEBACK
