"""W24 and W25: forged, changed, foreign and replayed checkpoints. The host refuses them, and never unpickles any."""

from __future__ import annotations

import base64
import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from belljar import Checkpoint, CheckpointRefused, Policy, Sandbox, SandboxError
from belljar.durable import saving
from belljar.engines.base import Spec
from belljar.host.budget import Budget
from belljar.packages.environment import Environment
from belljar.settings import Settings
from belljar.state import keys
from belljar.state.envelope import MAGIC, seal, unseal

PLAIN = Policy(packages="none")


class Payload:
    """Makes a file where it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.canary,)


@pytest.fixture(scope="module")
def genuine(native: None) -> Iterator[bytes]:
    with Sandbox("native", policy=PLAIN) as sandbox:
        sandbox.run("secret = 'of one owner'").raise_for_status()
        yield sandbox.checkpoint().to_bytes()


@pytest.fixture
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "__init__", lambda *_, **__: pytest.fail("a sandbox was started for it"))


@pytest.mark.usefixtures("no_sandbox")
def test_w24_a_forged_checkpoint_with_a_payload_is_refused_and_never_unpickled(genuine: bytes, tmp_path: Path):
    canary = tmp_path / "canary"
    payload = pickle.dumps(Payload(canary))
    header = unseal(genuine, keys.known_keys(Settings.load().state_dir), "").header
    forged_key = seal(header, [({"kind": "names", "names": ["x"]}, [payload])], bytes(32))
    own_id = keys.id_of(keys.own_key(Settings.load().state_dir))
    claims_our_key = MAGIC + own_id + forged_key[len(MAGIC) + keys.ID_BYTES :]
    for forged in (
        payload,
        b"",
        b"\0" * 100,
        MAGIC,
        MAGIC + payload,
        forged_key,
        claims_our_key,
        genuine[:-40] + payload,
    ):
        with pytest.raises(CheckpointRefused):
            Checkpoint.from_bytes(forged)
        with pytest.raises(CheckpointRefused):
            Sandbox.restore(forged)
    assert not canary.exists()


def test_w24_a_payload_that_hostile_code_had_signed_runs_behind_the_wall_only(tmp_path: Path):
    canary = tmp_path / "canary"
    hostile = (
        "import os\nclass Payload:\n    def __reduce__(self):\n"
        f'        return exec, (\'import os, pathlib; pathlib.Path("here").touch(); os.system("touch {canary}"); '
        f'os.makedirs("{tmp_path}", exist_ok=True); open("{canary}", "w").close()\',)\nx = Payload(); y = 1'
    )
    with Sandbox("native", policy=PLAIN) as sandbox:
        sandbox.run(hostile).raise_for_status()
        saved = sandbox.checkpoint()
    Checkpoint.from_bytes(saved.to_bytes())
    with Sandbox.restore(saved) as sandbox:
        assert sandbox.run("y").value == 1
        assert [entry.path for entry in sandbox.files.list()] == ["here"]
    assert not canary.exists()


@pytest.mark.usefixtures("no_sandbox")
def test_w25_one_flipped_bit_anywhere_is_refused(genuine: bytes):
    places = {*range(64), *range(len(genuine) - 64, len(genuine)), *random.Random(1).sample(range(len(genuine)), 300)}
    for place in places:
        changed = bytearray(genuine)
        changed[place] ^= 1 << (place % 8)
        with pytest.raises(CheckpointRefused):
            Sandbox.restore(bytes(changed))


@pytest.mark.usefixtures("no_sandbox")
def test_w25_a_checkpoint_that_was_cut_off_or_grew_is_refused(genuine: bytes):
    for length in (0, 1, len(MAGIC), 40, len(genuine) // 2, len(genuine) - 1):
        with pytest.raises(CheckpointRefused):
            Sandbox.restore(genuine[:length])
    with pytest.raises(CheckpointRefused):
        Sandbox.restore(genuine + b"more")


@pytest.mark.usefixtures("no_sandbox")
def test_w25_a_checkpoint_of_another_owner_is_refused(genuine: bytes):
    with pytest.raises(CheckpointRefused, match="somebody else"):
        Checkpoint.from_bytes(genuine, owner="tenant-b")
    found = unseal(genuine, keys.known_keys(Settings.load().state_dir), "")
    for_a = seal({**found.header, "owner": "tenant-a"}, [], keys.own_key(Settings.load().state_dir))
    assert Checkpoint.from_bytes(for_a, owner="tenant-a").owner == "tenant-a"
    with pytest.raises(CheckpointRefused, match="somebody else"):
        Sandbox.restore(for_a)


def test_w25_another_installation_refuses_it_until_it_was_given_the_key(
    genuine: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    key = keys.export_key()
    monkeypatch.setenv("BELLJAR_STATE_DIR", str(tmp_path))
    with pytest.raises(CheckpointRefused, match="does not trust"):
        Checkpoint.from_bytes(genuine)
    keys.import_key(key)
    assert Checkpoint.from_bytes(genuine).saved == ["secret"]


def test_w25_an_object_that_was_tampered_with_is_refused_too(genuine: bytes):
    honest = Checkpoint.from_bytes(genuine)
    object.__setattr__(honest, "_bytes", genuine[:-1] + b"\0" if genuine[-1] else genuine[:-1] + b"\1")
    with pytest.raises(CheckpointRefused):
        Sandbox.restore(honest)
    stolen = Checkpoint.from_bytes(genuine)
    object.__setattr__(stolen, "owner", "tenant-b")
    with pytest.raises(CheckpointRefused):
        Sandbox.restore(stolen)


def test_w25_an_older_checkpoint_is_restored_again_as_documented(genuine: bytes):
    for _ in range(2):
        with Sandbox.restore(genuine) as sandbox:
            assert sandbox.run("secret").value == "of one owner"
            sandbox.run("secret = 'changed since'")


def test_the_host_never_imports_what_could_unpickle_a_checkpoint(genuine: bytes):
    assert Checkpoint.from_bytes(genuine).saved == ["secret"]
    assert "cloudpickle" not in sys.modules
    belljar = [module for name, module in sys.modules.items() if name.split(".")[0] == "belljar"]
    assert belljar
    assert not [module for module in belljar if "pickle" in vars(module)]


@pytest.mark.usefixtures("native")
def test_a_payload_that_ends_its_python_is_left_out_and_the_rest_comes_back():
    with Sandbox("native", policy=PLAIN) as sandbox:
        sandbox.files.write("file", "text")
        sandbox.run(
            "import os\nclass End:\n    def __reduce__(self): return os._exit, (3,)\nend = End(); x = 1; other = End(); y = 2"
        ).raise_for_status()
        saved = sandbox.checkpoint()
        with Sandbox.restore(saved) as again:
            report, ran = again.restored, again.run("[x, y, open('file').read(), 'end' in globals()]")
        assert (ran.value, ran.state) == ([1, 2, "text", False], "restored")
        assert set(report.skipped) == {"end", "other"}
        assert "code 3" in report.skipped["end"]
        assert "x" in report.saved
        assert "without end, other" in ran.state_reason
        assert sandbox.run("x").value == 1
        sandbox.run("for k in range(20): globals()[f'end{k}'] = End()").raise_for_status()
        with pytest.raises(SandboxError, match="ended while it was asked"):
            Sandbox.restore(sandbox.checkpoint())


@pytest.mark.usefixtures("native")
def test_names_from_inside_are_one_line_without_control_characters():
    code = r"""
import threading
globals()["\x1b]0;owned\x07\nFAKE"] = threading.Lock()
globals()["\x1b[31m"] = 5
globals()["\ud800"] = 6
"""
    with Sandbox("native", policy=PLAIN) as sandbox:
        sandbox.run(code).raise_for_status()
        saved = sandbox.checkpoint()
    assert "?]0;owned??FAKE" in saved.skipped
    with Sandbox.restore(saved) as again:
        told = [*saved.saved, *saved.skipped, *saved.skipped.values(), *again.restored.saved]
        assert again.run(r"globals()['\x1b[31m'], globals()['\ud800']").value == [5, 6]
    assert all(text.isprintable() for text in told)
    assert again.restored.skipped == {}


@pytest.mark.parametrize(
    ("data", "why", "state"),
    [(text, "nonsense", "kept") for text in ("'no base64'", "'é'", "'===='", "''")]
    + [(value, "broke the protocol: an event state whose data", "reset") for value in ("7", "None")],
)
@pytest.mark.usefixtures("native")
def test_nonsense_in_place_of_bytes_is_named_and_what_is_no_event_ends_that_python(data: str, why: str, state: str):
    lie = "import belljar_kernel.state as s\ndef save(self, _, answer):\n    answer.send('state', {'part': 1, 'data': %s})\n    return {'parts': []}"
    with Sandbox("native", policy=PLAIN) as sandbox:
        sandbox.run(f"{lie % data}\ns.State.save = save").raise_for_status()
        with pytest.raises(SandboxError, match=why):
            sandbox.checkpoint()
        assert sandbox.run("1").state == state


def test_a_lying_kernel_gets_an_error_and_costs_the_host_nothing(native: None):
    lies = (
        "import belljar_kernel.state as state\n"
        "def save(self, request, answer):\n"
        "    answer.send('state', {'part': 'one', 'data': 7})\n    return {'parts': 5}\n"
        "state.State.save = save"
    )
    with Sandbox("native", policy=PLAIN) as sandbox:
        sandbox.run(lies).raise_for_status()
        with pytest.raises(SandboxError, match="broke the protocol: an event state whose part"):
            sandbox.checkpoint()
        lie = "import belljar_kernel.state as state\nstate.State.save = lambda *_: "
        sandbox.run(lie + "{'parts': [], 'skipped': 1}")
        with pytest.raises(SandboxError, match="broke the protocol: an event done whose skipped"):
            sandbox.checkpoint()
        sandbox.run(lie + "{'parts': [{'kind': 'names', 'part': 9, 'names': ['x', 3]}, 4], 'skipped': {'y': 1}}")
        saved = sandbox.checkpoint()
    assert (saved.saved, saved.skipped) == ([], {})
    with Sandbox.restore(saved) as sandbox:
        assert sandbox.run("1 + 1").value == 2


def test_states_that_arrive_together_are_bounded_together_and_one_alone_is_not():
    budget = Budget(5 << 20)
    piece = {"type": "state", "part": 1, "data": base64.b64encode(bytes(3 << 20)).decode()}
    done = {"parts": [{"part": 1, "kind": "files", "names": []}]}
    spec = Spec("", Environment(Path("/python")))
    first, second = saving.Arriving(spec, 64 << 20, budget), saving.Arriving(spec, 64 << 20, budget)
    first(piece)
    second(piece)
    with pytest.raises(SandboxError, match="too much at once"):
        list(second.parts(done))
    first(piece)
    assert [len(pieces) for _, pieces in first.parts(done)] == [1]
    del first
    third = saving.Arriving(spec, 64 << 20, budget)
    third(piece)
    assert len(list(third.parts(done))) == 1
