"""What a durable sandbox may touch is kept with it, and checked anew when it wakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.durability.conftest import MakeHost, saved
from tests.loopback import Web, names

from belljar import InvalidRequest, Policy, Sandbox
from belljar.durable.autosave import added_packages
from belljar.packages.environment import Environment

LOOK = """
from urllib.request import urlopen
def look(port):
    return [open("/data/a").read(), urlopen(f"http://example.test:{port}/a", timeout=10).read().decode()]
"""


@pytest.mark.parametrize("engine", ["native", "wasm"])
def test_mounts_and_the_network_are_there_again_and_folders_are_checked_anew(
    another: MakeHost, tmp_path: Path, engine: str
):
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a").write_text("mounted")
    web = Web()
    with names() as known:
        known.known = {"example.test": ["127.0.0.1"]}
        host = another()
        policy = Policy(
            packages="none",
            mounts={"/data": vault},
            network=[f"{host}:{web.port}" for host in ("example.test", "127.0.0.1")],
        )
        with Sandbox(engine, durable=True, policy=policy) as sandbox:
            identity = sandbox.id
            sandbox.run(LOOK).raise_for_status()
            assert sandbox.run("look(_args)", args=web.port).value == ["mounted", "hello /a"]
            saved(host, identity)
        host.close()

        another()
        vault.rename(tmp_path / "moved")
        with pytest.raises(InvalidRequest, match="vault' cannot be mounted"):
            Sandbox.connect(identity)
        vault.symlink_to(tmp_path / "moved")
        with pytest.raises(InvalidRequest, match="link to another"):
            Sandbox.connect(identity)
        vault.unlink()
        (tmp_path / "moved").rename(vault)
        with Sandbox.connect(identity) as again:
            ran = again.run("look(_args)", args=web.port)
            assert (ran.error, ran.value, ran.state) == (None, ["mounted", "hello /a"], "restored")
            refused = again.run("urlopen('http://evil.test/')")
            assert [denial.target for denial in refused.denials] == ["evil.test:80"]
            again.close()
    web.close()


def test_a_package_from_an_address_is_remembered_as_that():
    ground = Environment(Path("/python"), packages=("numpy==1.0",))
    wheel, address = "mine @ file:///w/mine-1.0-py3-none-any.whl", "https://code.test/mine.zip"
    found = Environment(
        Path("/python"),
        packages=("mine==1.0", "numpy==1.0", "walnut==2.0"),
        base=ground,
        requirements=(wheel, "walnut"),
    )
    assert added_packages(found, lambda text: {wheel: address}.get(text, text)) == (address, "walnut==2.0")
    assert added_packages(ground, str) == ()
