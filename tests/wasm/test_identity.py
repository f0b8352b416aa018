"""Sandboxes come out of one snapshot, yet none can guess another's random numbers, nor see the host's environment."""

from __future__ import annotations

import random

import pytest

from belljar import Sandbox

DRAW = """
import random, secrets, tempfile, uuid, os, numpy, hashlib
{
    "random": random.random(), "choice": random.sample(range(10**9), 3), "Random": random.Random().random(),
    "system": random.SystemRandom().random(), "secrets": secrets.token_hex(8), "urandom": os.urandom(8).hex(),
    "uuid1": str(uuid.uuid1()), "uuid4": str(uuid.uuid4()), "mkdtemp": tempfile.mkdtemp(),
    "named": tempfile.NamedTemporaryFile().name, "legacy": numpy.random.rand(), "normal": numpy.random.normal(),
    "generator": numpy.random.default_rng().random(), "seed": numpy.random.SeedSequence().entropy % 10**9,
}
"""


@pytest.mark.usefixtures("host")
def test_two_sandboxes_draw_nothing_alike():
    with Sandbox("wasm") as one, Sandbox("wasm") as two:
        first, second = one.run(DRAW).value, two.run(DRAW).value
        assert [name for name in first if first[name] == second[name]] == []


@pytest.mark.usefixtures("host")
def test_a_reset_draws_anew():
    with Sandbox("wasm") as sandbox:
        first = sandbox.run(DRAW).value
        sandbox.reset()
        second = sandbox.run(DRAW).value
        assert [name for name in first if first[name] == second[name]] == []


def test_seeds_still_give_what_they_give_everywhere(wasm: Sandbox):
    code = "import random\nrandom.seed(7)\n[random.random(), random.randrange(10**6), random.gauss(0, 1)]"
    here = random.Random(7)
    assert wasm.run(code).value == [here.random(), here.randrange(10**6), here.gauss(0, 1)]


def test_the_order_of_a_set_of_strings_is_the_same_in_all_sandboxes(wasm: Sandbox, bare: Sandbox):
    code = "list({'a', 'b', 'c', 'd', 'e', 'f'})"
    assert wasm.run(code).value == bare.run(code).value


def test_the_environment_is_only_what_belljar_sets(monkeypatch, host):
    monkeypatch.setenv("HOST_CANARY", "canary-77b1")
    with Sandbox("wasm", env={"MINE": "yes"}) as sandbox:
        found = sandbox.run("import os\ndict(os.environ)").value
    assert found == {
        "HOME": "/home/sandbox", "LANG": "C.UTF-8", "LOGNAME": "sandbox", "MINE": "yes", "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": "/tmp", "USER": "sandbox",
    }  # fmt: skip


def test_nothing_inside_names_a_folder_of_the_host(wasm: Sandbox, host):
    said = wasm.run(
        "import os, sys, sysconfig, site, platform, json\n"
        "seen = [sys.executable, sys.prefix, sys.base_prefix, sys.argv, sys.path, sys.orig_argv, sys._base_executable, sys.flags,\n"
        "        sysconfig.get_paths(), site.PREFIXES, platform.uname(), os.getcwd(), os.listdir('/'), dict(os.environ),\n"
        "        {name: getattr(module, '__file__', None) for name, module in sys.modules.items()}]\n"
        "repr(seen)"
    ).value
    cache = str(host.settings.cache_dir)
    assert cache not in said
    assert "/.new-" not in said


def test_it_is_a_machine_of_its_own(wasm: Sandbox):
    assert wasm.run("import sys, platform, os\n[sys.platform, platform.machine(), os.getcwd(), os.cpu_count()]").value == [
        "emscripten", "wasm32", "/workspace", 1,
    ]  # fmt: skip
    assert wasm.run("import sys\nlist(sys.version_info[:2])").value == [3, 14]
