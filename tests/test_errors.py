"""Every error has a stable code, a status and a word on trying again, on its page and on the wire."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re

import pytest
from tests.pages import DOCS

import belljar
from belljar.errors import EngineUnavailable, HostBusy, InvalidRequest, PackageError, SandboxError
from belljar.execution import Execution, ExecutionError, ExecutionFailed, Result
from belljar.failures import DETAILS, classes, failure_from_plain, failure_to_plain
from belljar.health import EngineHealth, Layer

# A code never changes: programs of others depend on it.
CODES = {
    "SandboxError": ("sandbox_error", 500, False),
    "InvalidRequest": ("invalid_request", 400, False),
    "EngineUnavailable": ("engine_unavailable", 501, False),
    "StartFailed": ("start_failed", 503, True),
    "SandboxClosed": ("sandbox_closed", 410, False),
    "FileError": ("file_error", 422, False),
    "FileMissing": ("file_missing", 404, False),
    "PathRefused": ("path_refused", 400, False),
    "FileTooLarge": ("file_too_large", 413, False),
    "DiskFull": ("disk_full", 507, False),
    "CheckpointRefused": ("checkpoint_refused", 422, False),
    "HostBusy": ("host_busy", 503, True),
    "SandboxMissing": ("sandbox_missing", 404, False),
    "SandboxTaken": ("sandbox_taken", 409, False),
    "StoreFailed": ("store_failed", 503, True),
    "PackageError": ("package_error", 422, False),
    "ExecutionFailed": ("execution_failed", 422, False),
}
HEALTH = EngineHealth(
    "native", True, (Layer("landlock", False, "Linux is too old", "use Linux 5.13"), Layer("x", True, ""))
)
EXECUTION = Execution(
    "error", [Result(text="1")], error=ExecutionError("ValueError", "no", "…", 1, "RUNTIME_ERROR"), exit_code=1
)
SPECIAL = {
    EngineUnavailable: EngineUnavailable("no wall", HEALTH),
    HostBusy: HostBusy("full", 2.5),
    ExecutionFailed: ExecutionFailed(EXECUTION),
}


def tree() -> list[type[SandboxError]]:
    """All errors of the package: those of modules that nothing has imported yet, too."""
    for module in pkgutil.walk_packages(belljar.__path__, "belljar."):
        if not module.name.endswith(("__main__", ".runtime.compiled", ".native.probes", ".host.recipe")):
            importlib.import_module(module.name)
    found, pending = [], [SandboxError]
    while pending:
        kind = pending.pop()
        found.append(kind)
        pending += [below for below in kind.__subclasses__() if below.__module__.startswith("belljar.")]
    return found


def public() -> list[type[SandboxError]]:
    return [kind for kind in tree() if kind.__name__ in belljar.__all__]


def made(kind: type[SandboxError]) -> SandboxError:
    return SPECIAL.get(kind) or kind("it failed: ünïcödé")


def test_every_public_error_has_a_code_that_never_changes():
    assert {kind.__name__: (kind.code, kind.status, kind.retryable) for kind in public()} == CODES
    assert {kind.__name__ for kind in classes().values()} == set(CODES)


def test_an_error_within_a_layer_has_the_code_of_its_public_parent():
    for kind in set(tree()) - set(public()):
        parent = next(above for above in kind.__mro__ if above in public())
        assert (kind.code, kind.status, kind.retryable) == (parent.code, parent.status, parent.retryable), kind


def test_what_can_be_tried_again_is_a_server_that_cannot_serve_now():
    for kind in tree():
        assert kind.status in range(400, 600)
        assert not kind.retryable or kind.status in (429, 503), kind


def test_everything_that_an_error_carries_has_a_type():
    assert {name for kind in tree() for name in kind.details} == set(DETAILS)


@pytest.mark.parametrize("name", CODES)
def test_an_error_comes_back_as_its_very_class_with_all_that_it_carries(name: str):
    error = made(getattr(belljar, name))
    back = failure_from_plain(json.loads(json.dumps(failure_to_plain(error), allow_nan=False)))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert {name: getattr(back, name) for name in error.details} == {
        name: getattr(error, name) for name in error.details
    }
    assert (back.code, back.status, back.retryable) == (error.code, error.status, error.retryable)
    with pytest.raises(type(error)):
        raise back


def test_an_error_within_a_layer_comes_back_as_its_public_parent():
    class Inner(PackageError):
        pass

    assert type(failure_from_plain(failure_to_plain(Inner("no wheel")))) is PackageError


def test_an_error_of_a_newer_belljar_keeps_its_code():
    newer = {"code": "moon_phase", "detail": "wait for it", "status": 503, "retryable": True, "phase": "new"}
    error = failure_from_plain(newer)
    assert type(error) is SandboxError
    assert failure_to_plain(error) == {name: newer[name] for name in ("code", "detail", "status", "retryable")}
    assert SandboxError.code == "sandbox_error"


@pytest.mark.parametrize(
    "data",
    [None, [], "x", {}, {"code": 5, "detail": ""}, {"code": "host_busy", "detail": "x", "retry_after_s": "soon"},
     {"code": "engine_unavailable", "detail": "x", "health": []}, {"code": "new", "detail": "x", "status": "1"}],
)  # fmt: skip
def test_what_is_no_error_is_refused(data: object):
    with pytest.raises(InvalidRequest):
        failure_from_plain(data)


def test_the_page_has_the_table_of_all_codes():
    page = (DOCS / "errors.md").read_text("utf-8")
    rows = re.findall(r"^\| \[?(\w+)\]?[^|]*\| `(\w+)` \| (\d+) \| (yes|no) \|", page, flags=re.MULTILINE)
    assert {name: (code, int(status), again == "yes") for name, code, status, again in rows} == CODES
    assert len(rows) == len(CODES)


def test_the_page_has_a_section_for_every_public_error():
    page = (DOCS / "errors.md").read_text("utf-8")
    assert set(CODES) - set(re.findall(r"^### (\w+)$", page, flags=re.MULTILINE)) == set()
