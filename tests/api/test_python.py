"""Another CPython of this machine, by version or by path."""

from __future__ import annotations

import sys

import pytest

from belljar import InvalidRequest, Policy, Sandbox
from belljar.packages.pythons import find_python, known_pythons

ALONE = Policy(packages="none")
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize("version", known_pythons())
def test_every_python_of_this_machine_can_be_had(native: None, version: str) -> None:
    short = version.rpartition(".")[0]
    with Sandbox("native", python=short, policy=ALONE) as sandbox:
        ran = sandbox.run("import sys; print('%d.%d' % sys.version_info[:2]); x = 1")
        assert (ran.stdout, ran.error) == (f"{short}\n", None)
        assert sandbox.run("x + 1").value == 2


def test_a_path_and_a_command_name_one_too(native: None) -> None:
    path = str(find_python(OWN))
    for asked in (path, f"python{OWN}"):
        with Sandbox("native", python=asked, policy=ALONE) as sandbox:
            assert sandbox.run("import sys; '%d.%d' % sys.version_info[:2]").value == OWN


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("3.99", r"there is no CPython 3\.99 on this machine; there are 3\."),
        ("2.7", "must be a version such as"),
        ("python; rm -rf", "must be a version such as"),
        ("--version", "must be a version such as"),
        ("/bin/ls", "is not a Python that can be run"),
        ("/no/such/python", "is not a Python that can be run"),
    ],
)
def test_one_that_is_not_here_is_refused_with_those_that_are(asked: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        Sandbox("native", python=asked, policy=ALONE)


@pytest.mark.wasm
def test_the_wasm_engine_has_its_own_and_no_other() -> None:
    with pytest.raises(InvalidRequest, match=r"the wasm engine has Python 3\.14 and no other"):
        Sandbox("wasm", python="3.12")
