"""Checkpoints through the public face: what is saved, what comes back, and what is said about the rest."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator

import pytest
from tests import probe
from tests.state.programs import SCIENCE, USED, USES_IT

from belljar import AsyncSandbox, Checkpoint, CheckpointReport, Limits, Policy, Sandbox, SandboxClosed, SandboxError
from belljar.durable import saving
from belljar.service.base import LIBRARY


def value(sandbox: Sandbox, code: str) -> object:
    execution = sandbox.run(code)
    execution.raise_for_status()
    return execution.value


def limits(sandbox: Sandbox) -> Limits:
    return probe.wait(sandbox, probe.service(sandbox).get(LIBRARY, sandbox.id)).limits


@pytest.fixture(scope="module")
def checkpoint(native: None) -> Iterator[Checkpoint]:
    """Of a sandbox that is closed already."""
    with Sandbox("native", limits=Limits(disk_mb=64)) as sandbox:
        value(sandbox, SCIENCE)
        value(sandbox, "import os; os.makedirs('a/b'); os.symlink('a', 'l')")
        sandbox.files.write("a/b/c.txt", "text")
        value(sandbox, "os.chmod('a/b/c.txt', 0o600)")
        sandbox.run("gen = (i for i in ()); raise ValueError('a run that failed changes nothing')")
        yield sandbox.checkpoint("first")


def test_a_checkpoint_tells_what_it_has(checkpoint: Checkpoint):
    assert (checkpoint.engine, checkpoint.name, checkpoint.files_skipped) == ("native", "first", {})
    assert checkpoint.python.startswith("3.")
    assert {"m", "df", "arr", "model", "f", "Thing", "thing", "np", "pd"} <= set(checkpoint.saved)
    assert list(checkpoint.skipped) == ["gen"]
    assert "generator" in checkpoint.skipped["gen"]


def test_everything_comes_back_in_another_sandbox(checkpoint: Checkpoint):
    with Sandbox.restore(checkpoint) as sandbox:
        assert sandbox.restored == CheckpointReport(checkpoint.saved, {}, {})
        assert value(sandbox, USES_IT) == USED
        assert sandbox.files.read("a/b/c.txt") == b"text"
        assert value(sandbox, "import os; [os.readlink('l'), os.stat('a/b/c.txt').st_mode]") == [
            "a",
            stat.S_IFREG | 0o600,
        ]


def test_the_first_run_says_that_the_state_was_restored(checkpoint: Checkpoint):
    with Sandbox.restore(checkpoint) as sandbox:
        first, second = sandbox.run("1"), sandbox.run("2")
    assert (first.state, second.state) == ("restored", "kept")
    assert checkpoint.id in (first.state_reason or "")
    assert first.execution_count == 5


def test_bytes_are_enough_and_limits_are_kept_unless_others_are_given(checkpoint: Checkpoint):
    again = Checkpoint.from_bytes(checkpoint.to_bytes())
    assert again == checkpoint
    with Sandbox.restore(checkpoint.to_bytes()) as sandbox:
        assert limits(sandbox) == Limits(disk_mb=64)
    with Sandbox.restore(checkpoint, limits=Limits(memory_mb=300)) as sandbox:
        assert limits(sandbox) == Limits(memory_mb=300)
        assert value(sandbox, "f(2)") == 5


def test_one_checkpoint_makes_sandboxes_that_know_nothing_of_each_other(checkpoint: Checkpoint):
    with Sandbox.restore(checkpoint) as one, Sandbox.restore(checkpoint) as other:
        value(one, "thing.n = 50; only_here = 1")
        assert value(other, "thing.more()") == 4
        assert other.run("only_here").error.name == "NameError"  # type: ignore[union-attr]


def test_a_restored_sandbox_can_be_saved_again(checkpoint: Checkpoint):
    with Sandbox.restore(checkpoint) as sandbox:
        value(sandbox, "def g(): return f(10)")
        second = sandbox.checkpoint()
    with Sandbox.restore(second) as sandbox:
        assert value(sandbox, "[g(), thing.more()]") == [13, 4]
    assert second.id != checkpoint.id


@pytest.mark.usefixtures("native")
def test_async_sandboxes_have_the_same_two_acts():
    async def trip() -> object:
        async with AsyncSandbox("native", policy=Policy(packages="none")) as sandbox:
            await sandbox.run("x = [41]")
            saved = await sandbox.checkpoint()
        restored = await AsyncSandbox.restore(saved)
        async with restored:
            assert restored.restored == CheckpointReport(["x"], {}, {})
            return (await restored.run("x[0] + 1")).value

    assert asyncio.run(trip()) == 42


@pytest.mark.usefixtures("native")
def test_python_alone_has_checkpoints_too_and_no_cloudpickle_of_its_own():
    with Sandbox("native", policy=Policy(packages="none")) as sandbox:
        value(sandbox, "def f(): return 7")
        saved = sandbox.checkpoint()
    with Sandbox.restore(saved) as sandbox:
        assert value(sandbox, "f()") == 7
        assert sandbox.run("import cloudpickle").error.code == "MODULE_NOT_FOUND"  # type: ignore[union-attr]
        assert sandbox.run("import numpy").error.code == "MODULE_NOT_FOUND"  # type: ignore[union-attr]


def test_what_saving_prints_or_loops_forever_is_no_output_and_loses_nothing(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    value(
        sandbox,
        "kept = 1\nclass Loud:\n    def __reduce__(self):\n        print('loud'); return (int, ())\nloud = Loud()",
    )
    assert sandbox.checkpoint().skipped == {}
    value(sandbox, "class Endless:\n    def __reduce__(self):\n        while True: pass\nendless = Endless()")
    monkeypatch.setattr(saving, "TIMEOUT_S", 2.0)
    with pytest.raises(SandboxError, match="in time"):
        sandbox.checkpoint()
    after = sandbox.run("kept")
    assert (after.value, after.state, after.stdout) == (1, "kept", "")


@pytest.mark.usefixtures("native")
def test_a_checkpoint_that_nobody_waits_for_any_more_loses_nothing():
    async def leave_early() -> tuple[object, str]:
        async with AsyncSandbox("native", limits=Limits(memory_mb=1024)) as sandbox:
            await sandbox.run("import numpy as np; data = np.ones(50 << 20, dtype='u1'); x = 1")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(sandbox.checkpoint(), 0.02)
            after = await sandbox.run("x")
            assert (await sandbox.checkpoint()).saved == ["np", "data", "x"]
            return after.value, after.state

    assert asyncio.run(leave_early()) == (1, "kept")


@pytest.mark.usefixtures("native")
def test_what_does_not_fit_into_memory_is_told_and_the_rest_is_there():
    with Sandbox("native") as sandbox:
        value(sandbox, "import numpy as np; x = 1; data = np.ones(200 << 20, dtype='u1')")
        saved = sandbox.checkpoint()
    with Sandbox.restore(saved, limits=Limits(memory_mb=160)) as sandbox:
        assert list(sandbox.restored.skipped) == ["data"]  # type: ignore[union-attr]
        assert "memory" in sandbox.restored.skipped["data"]  # type: ignore[union-attr]
        assert value(sandbox, "x") == 1


def test_there_is_no_state_of_a_python_that_ended(sandbox: Sandbox):
    assert sandbox.run("x = 1; import os; os._exit(3)").status == "crashed"
    with pytest.raises(SandboxError, match="no state"):
        sandbox.checkpoint()
    sandbox.close()
    with pytest.raises(SandboxClosed):
        sandbox.checkpoint()


def test_files_that_do_not_fit_are_told_and_the_rest_is_there(sandbox: Sandbox):
    sandbox.files.write("large.bin", bytes(3 << 20))
    sandbox.files.write("small.txt", "s")
    value(sandbox, "x = 1")
    saved = sandbox.checkpoint()
    with Sandbox.restore(saved, limits=Limits(disk_mb=2)) as other:
        assert list(other.restored.files_skipped) == ["large.bin"]  # type: ignore[union-attr]
        assert other.files.read("small.txt") == b"s"
        assert value(other, "x") == 1


def test_files_larger_than_what_may_be_saved_are_told_and_cost_nothing_else():
    limits = Limits(memory_mb=64, disk_mb=16)
    with Sandbox("native", limits=limits, policy=Policy(packages="none")) as sandbox:
        value(sandbox, "x = 1\nwith open('large', 'wb') as file: _ = file.truncate(15 << 20)")
        value(sandbox, "import os\nfor n in range(20): os.link('large', f'link-{n:02}')")
        value(sandbox, "open('small', 'w').write('s')")
        saved = sandbox.checkpoint()
    assert "x" in saved.saved
    assert 15 <= len(saved.files_skipped) < 20
    assert set(saved.files_skipped.values()) == {"its 15,728,640 bytes do not fit into what may be saved"}


@pytest.mark.parametrize("megabytes", [10, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.usefixtures("native")
def test_large_states_come_back_to_the_byte(megabytes: int):
    limits = Limits(memory_mb=1536, timeout_s=120)
    digest = "import hashlib; hashlib.sha256(data.tobytes()).hexdigest()"
    with Sandbox("native", limits=limits) as sandbox:
        value(sandbox, f"import numpy as np; data = np.random.default_rng(7).bytes({megabytes} << 20)")
        value(sandbox, "data = np.frombuffer(data, dtype='u1').copy(); few = data[:3].tolist()")
        before = value(sandbox, digest)
        saved = sandbox.checkpoint()
    assert saved.size > megabytes << 20
    with Sandbox.restore(saved) as sandbox:
        assert value(sandbox, digest) == before
        assert value(sandbox, "data[:3].tolist() == few")


def test_a_folder_that_may_not_be_read_is_named_and_the_rest_is_there(sandbox: Sandbox):
    sandbox.run("import os\nos.mkdir('shut', 0)\nopen('kept.txt', 'w').write('kept')")
    checkpoint = sandbox.checkpoint()
    assert checkpoint.files_skipped == {"shut": "Permission denied"}
    with Sandbox.restore(checkpoint) as restored:
        assert restored.files.read("kept.txt") == b"kept"
