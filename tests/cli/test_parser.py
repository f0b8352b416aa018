import shlex

import pytest

from belljar.surfaces.cli import parser

COMMANDS = ["run", "repl", "doctor", "packages", "bench", "attack", "version"]


def test_run_takes_every_option_of_the_contract():
    options = parser.build().parse_args(
        shlex.split(
            "run main.py --engine wasm --package a --package b --file x:y --file z --net h:1 --net *.i"
            " --timeout 2.5 --memory 100 --stdin in.txt --args [1] --out dir --json"
        )
    )
    assert vars(options) == {
        "command": "run",
        "version": False,
        "source": "main.py",
        "code": None,
        "engine": "wasm",
        "packages": ["a", "b"],
        "files": ["x:y", "z"],
        "hosts": ["h:1", "*.i"],
        "timeout": 2.5,
        "memory": 100,
        "stdin": "in.txt",
        "args": "[1]",
        "out": "dir",
        "json": True,
    }


def test_repeatable_options_do_not_leak_from_one_parse_into_the_next():
    commands = parser.build()
    commands.parse_args(["run", "-c", "1", "--package", "a", "--file", "b", "--net", "c"])
    options = commands.parse_args(["run", "-c", "1"])
    assert (options.packages, options.files, options.hosts) == ([], [], [])


@pytest.mark.parametrize("code", ["-2**2", "--x", "-x + 1", "-", "1"])
def test_code_may_start_with_a_dash(code):
    options = parser.build().parse_args(parser.attach_code(["run", "-c", code, "--json"]))
    assert (options.code, options.json) == (code, True)


@pytest.mark.parametrize("line", ["run --engin native", "run --timeout soon", "packages", "runn", "run -c"])
def test_wrong_usage_exits_with_2(line, capsys):
    with pytest.raises(SystemExit) as ended:
        parser.build().parse_args(line.split())
    assert ended.value.code == 2
    assert "belljar" in capsys.readouterr().err


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit):
        parser.build().parse_args(["--help"])
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if f"    {name} " not in shown] == []
