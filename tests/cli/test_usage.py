"""What the command line refuses before a sandbox starts."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], b"belljar: cannot read missing.py for the code: No such file or directory\n"),
        (
            ["-c", "1", "--file", "missing.csv:x"],
            b"belljar: cannot read missing.csv for --file: No such file or directory\n",
        ),
        (["-c", "1", "--args", "{"], b"belljar: --args is not JSON: "),
        (["-c", "1", "--timeout", "0"], b"belljar: timeout_s must be from 0.05 to 300, not 0.0\n"),
        (["-c", "1", "--memory", "1"], b"belljar: memory_mb must be from 64 to "),
        (["-c", "1", "--engine", "jail"], b"belljar: there is no engine 'jail'; use one of: auto, native, wasm\n"),
        (["a.py", "-c", "1"], b"belljar: give a FILE or -c CODE, not both\n"),
        (["-", "--stdin", "-"], b"belljar: standard input cannot be both the code and --stdin\n"),
    ],
)
def test_wrong_usage_is_one_line_and_2(belljar, arguments, message):
    done = belljar("run", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(message)
    assert done.stderr.count(b"\n") == 1
