"""Compiles a module for the interpreter that runs this. The last expression is for the script that runs it."""

import importlib._bootstrap_external as external
import importlib.util
import warnings

warnings.simplefilter("ignore")


def compiled(path: str) -> bytes | None:
    """The module as Python keeps it on disk, checked by nobody later; None when it is not for this Python."""
    with open(path, "rb") as file:
        source = file.read()
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    return bytes(external._code_to_hash_pyc(code, importlib.util.source_hash(source), False))  # type: ignore[attr-defined]


compiled  # noqa: B018
