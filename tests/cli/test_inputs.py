import io
import sys

import pytest

from belljar.errors import InvalidRequest
from belljar.surfaces.cli import inputs


def test_a_file_goes_to_its_own_name_or_to_the_one_given(tmp_path):
    source = tmp_path / "a.csv"
    source.write_text("x")
    assert inputs.split_file(str(source)) == (str(source), "a.csv")
    assert inputs.split_file(f"{source}:data/b.csv") == (str(source), "data/b.csv")
    assert inputs.split_file(f"{source}:data/") == (str(source), "data/a.csv")


def test_a_source_that_exists_may_have_a_colon(tmp_path):
    source = tmp_path / "12:30.log"
    source.write_text("x")
    assert inputs.split_file(str(source)) == (str(source), "12:30.log")
    assert inputs.split_file(f"{source}:b") == (str(source), "b")


def test_a_folder_brings_all_it_has(tmp_path):
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "a").write_bytes(b"\xff")
    (tmp_path / "data" / "deep" / "b").write_bytes(b"")
    assert inputs.read_files([f"{tmp_path}/data"]) == {"data/a": b"\xff", "data/deep/b": b""}
    assert inputs.read_files([f"{tmp_path}/data:in"]) == {"in/a": b"\xff", "in/deep/b": b""}


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidRequest, match=r"cannot read .*/nothing for --file: No such file or directory"):
        inputs.read_files([f"{tmp_path}/nothing:x"])


def test_arguments_that_are_not_json_are_refused():
    assert inputs.read_arguments('{"n": [1, null]}') == {"args": {"n": [1, None]}}
    assert (inputs.read_arguments("null"), inputs.read_arguments(None)) == ({"args": None}, {})
    with pytest.raises(InvalidRequest, match="--args is not JSON: Expecting"):
        inputs.read_arguments("{n: 1}")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (b"x = '\xc3\xa9'\r\n", "x = 'é'\r\n"),
        (b"\xef\xbb\xbfx = 1", "x = 1"),
        (b"# coding: latin-1\nx = '\xe9'", "# coding: latin-1\nx = 'é'"),
    ],
)
def test_code_is_read_in_its_own_encoding(tmp_path, source, text):
    path = tmp_path / "main.py"
    path.write_bytes(source)
    assert inputs.read_code(str(path), None) == text


def test_code_in_no_known_encoding_is_refused(tmp_path):
    path = tmp_path / "main.py"
    path.write_bytes(b"x = '\xe9'")
    with pytest.raises(InvalidRequest, match="is not UTF-8 and declares no other encoding"):
        inputs.read_code(str(path), None)


def test_standard_input_is_one_thing_only(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"5\n")))
    with pytest.raises(InvalidRequest, match="cannot be both"):
        inputs.read_stdin("-", "-", None)
    assert inputs.read_stdin("-", None, "input()") == "5\n"


def test_a_file_and_code_are_one_too_many():
    with pytest.raises(InvalidRequest, match="not both"):
        inputs.read_code("main.py", "1")
