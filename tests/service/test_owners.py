"""Whatever another owner tries with an id, it is what comes of an id that never was, in as many steps."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import environ
from typing import Any

import pytest
from tests import probe
from tests.service.acts import BY_ID, WITHOUT_ID, every, of_the_contract, outcome
from tests.service.conftest import Kind, MakeHost

from belljar import compose
from belljar.compose import LocalHost
from belljar.durable import control_socket, durability, ledger, overview, transitions
from belljar.errors import CheckpointRefused, SandboxClosed, SandboxMissing
from belljar.execution import Execution
from belljar.host import host
from belljar.host.host import Host
from belljar.service import local, starts
from belljar.service.base import LIBRARY, RunRequest
from belljar.service.local import LocalService
from belljar.store.base import Store
from belljar.store.sqlite import SqliteStore

STRANGERS = ("bob", LIBRARY)
STATES = ("live", "live and durable", "asleep", "closed", "closed and durable")
WATCHED = {module.__file__ for module in (durability, host, ledger, local, starts, transitions)}


class CountingStore:
    """A store that notes what it is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        def ask(*given: Any) -> Any:
            self.asked.append(name)
            return found(*given)

        return ask if callable(found) else found


@dataclass
class World:
    """One service with the sandboxes of ann, one in each state, by their ids."""

    here: LocalHost
    store: CountingStore
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def service(self) -> LocalService:
        return self.here.service

    def wait(self, act: Any) -> Any:
        return self.here.background.wait(act)

    def value(self, id: str, code: str = "x") -> object:
        (ran,) = self.wait(every(self.service.run("ann", id, RunRequest(code))))
        assert isinstance(ran, Execution)
        assert ran.error is None, ran.error
        return ran.value

    def check_unchanged(self) -> None:
        """Everything that ann has is as it was made."""
        sessions = self.here.host.sessions()
        assert {session.id for session in sessions} == {self.ids["live"], self.ids["live and durable"]}
        assert {session.owner for session in sessions} == {"ann"}
        infos = self.wait(self.service.list("ann"))
        states = {info.id: info.state for info in infos}
        assert states == {
            self.ids["live"]: "live",
            self.ids["live and durable"]: "live",
            self.ids["asleep"]: "asleep",
        }
        for name in ("live", "live and durable"):
            assert self.value(self.ids[name], "[x, open('kept.txt').read()]") == ["kept", "kept"]
        for name in ("closed", "closed and durable"):
            with pytest.raises(SandboxClosed):
                self.value(self.ids[name])


@pytest.fixture(scope="module")
def world(make_host: MakeHost, kind: Kind) -> Iterator[World]:
    stores: list[CountingStore] = []

    def store(settings: Any) -> CountingStore:
        stores.append(CountingStore(SqliteStore(settings.state_dir)))
        return stores[-1]

    here = make_host(store=store)
    here.background.wait(here.service.durability())
    made = World(here, stores[0])
    for name in STATES:
        is_durable = name not in ("live", "closed")
        request = kind.request(durable=is_durable, files={"kept.txt": b"kept"})
        made.ids[name] = here.background.wait(made.service.create("ann", request)).id
        made.value(made.ids[name], "x = 'kept'; x")
        if is_durable:
            made.wait(probe.live(here.host, made.ids[name], "ann").guardian.settle())
    assert made.wait(made.service.hibernate("ann", made.ids["asleep"]))
    for name in ("closed", "closed and durable"):
        made.wait(made.service.close("ann", made.ids[name]))
    made.check_unchanged()
    yield made
    made.check_unchanged()
    assert made.value(made.ids["asleep"], "[x, open('kept.txt').read()]") == ["kept", "kept"]


def test_every_act_of_the_contract_has_a_case():
    acts = of_the_contract()
    assert {name for name, has_id in acts.items() if has_id} == set(BY_ID)
    assert {name for name, has_id in acts.items() if not has_id} == WITHOUT_ID


def test_every_act_on_a_sandbox_names_an_owner_before_the_id():
    for owner_of_acts in (LocalService, Host, overview.Overview, transitions.Transitions):
        for name, act in inspect.getmembers(owner_of_acts, inspect.isfunction):
            words = list(inspect.signature(act).parameters)
            if name.startswith("_") or "id" not in words or (owner_of_acts, name) == (Host, "reserve"):
                continue  # a place is reserved for what is not there yet, and its id is for the log alone
            assert words[1:3] == ["owner", "id"], f"{owner_of_acts.__name__}.{name}"
            assert inspect.signature(act).parameters["owner"].default is inspect.Parameter.empty


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", sorted(BY_ID))
def test_an_act_of_another_owner_is_as_on_an_id_that_never_was(world: World, name: str, state: str):
    never = str(uuid.uuid4())
    for stranger in STRANGERS:
        got = world.wait(outcome(BY_ID[name], world.service, stranger, world.ids[state]))
        assert got == world.wait(outcome(BY_ID[name], world.service, stranger, never))
        assert got[0] == ("returned" if name == "close" else "SandboxMissing")
    world.check_unchanged()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", sorted(BY_ID))
def test_an_act_of_another_owner_takes_the_steps_that_an_id_that_never_was_takes(world: World, name: str, state: str):
    async def steps(id: str) -> tuple[list[str], list[tuple[str, int]]]:
        """What the store is asked, and every line that the service, the host and the ledger run on the loop."""
        lines: list[tuple[str, int]] = []

        def trace(frame: Any, event: str, _: object) -> Any:
            if frame.f_code.co_filename not in WATCHED:
                return None
            lines.append((frame.f_code.co_name, frame.f_lineno))
            return trace

        world.store.asked.clear()
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            await outcome(BY_ID[name], world.service, "bob", id)
        finally:
            sys.settrace(before)
        return list(world.store.asked), lines

    world.wait(probe.live(world.here.host, world.ids["live and durable"], "ann").guardian.settle())
    asked, lines = world.wait(steps(world.ids[state]))
    assert (asked, lines) == world.wait(steps(str(uuid.uuid4())))
    assert len(lines) > 5
    assert asked == ["sandbox"]


def test_a_list_has_what_its_owner_has_and_no_page_leads_to_more(world: World):
    for stranger in STRANGERS:
        assert world.wait(world.service.list(stranger)) == []
        for name in world.ids.values():
            assert world.wait(world.service.list(stranger, after=name)) == []
    mine = [info.id for info in world.wait(world.service.list("ann"))]
    assert mine == sorted(mine)
    assert [info.id for info in world.wait(world.service.list("ann", after=mine[0], limit=1))] == mine[1:2]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_creating_with_the_id_of_another_owner_makes_a_sandbox_that_is_not_that(
    world: World, kind: Kind, state: str, durable: bool
):
    stranger = f"carl, who wants {'a durable one' if durable else 'one'}"
    made = world.wait(world.service.create(stranger, kind.request(id=world.ids[state], durable=durable)))
    try:
        assert probe.live(world.here.host, made.id, stranger).owner == stranger
        (ran,) = world.wait(every(world.service.run(stranger, made.id, RunRequest("'x' in globals()"))))
        assert ran.value is False
    finally:
        world.wait(world.service.close(stranger, made.id))
    world.check_unchanged()


def test_a_checkpoint_of_another_owner_is_refused_and_nothing_is_made_of_it(world: World, kind: Kind):
    saved = world.wait(world.service.checkpoint("ann", world.ids["live"])).to_bytes()
    for stranger in STRANGERS:
        with pytest.raises(CheckpointRefused):
            world.wait(world.service.restore(stranger, saved, kind.request()))
        assert world.here.host.sessions(stranger) == []
    again = world.wait(world.service.restore("ann", saved, kind.request()))
    assert world.value(again.id) == "kept"
    world.wait(world.service.close("ann", again.id))


def test_health_is_equal_for_all_owners(world: World):
    assert world.wait(world.service.health("bob")) == world.wait(world.service.health("ann"))


def test_a_host_finds_live_sandboxes_by_owner_and_id_only(world: World):
    for name in world.ids.values():
        assert [world.here.host.session(stranger, name) for stranger in STRANGERS] == [None, None]
        assert [world.here.host.was_closed(stranger, name) for stranger in STRANGERS] == [False, False]
    assert world.here.host.sessions("bob") == []
    assert world.here.host.status("bob")["sandboxes"] == {}
    assert set(world.here.host.status("ann")["sandboxes"]) == {world.ids["live"], world.ids["live and durable"]}


def test_the_control_socket_closes_and_shows_nothing_of_another_owner(world: World):
    folder, host_name = world.here.settings.state_dir, probe.durability(world.here).ledger.name

    def ask(**request: object) -> dict[str, Any]:
        answer = control_socket.ask(folder, host_name, request)
        assert answer is not None
        return answer

    for stranger in STRANGERS:
        for name in world.ids.values():
            never = ask(act="close", owner=stranger, id=str(uuid.uuid4()))
            assert ask(act="close", owner=stranger, id=name) == never
        assert ask(act="status", owner=stranger)["sandboxes"] == {}
    unknown = {"error": "this host knows no such act"}
    for name in world.ids.values():
        assert ask(act="close", id=name) == unknown
        assert ask(act="close", owner=None, id=name) == unknown
    assert ask(act="status") == unknown
    world.check_unchanged()


def test_an_operator_finds_and_closes_by_id_within_one_owner(world: World):
    with compose.overview(world.here.settings) as seen:
        for stranger in STRANGERS:
            assert seen.sandboxes(stranger, closed=True) == []
            for name in (*world.ids.values(), str(uuid.uuid4())):
                for given in (name, name[:8]):
                    for act in (seen.find, seen.sandbox, seen.close):
                        with pytest.raises(SandboxMissing) as missing:
                            act(stranger, given)
                        said = f"there is no durable sandbox {given!r}; `belljar sandboxes list` shows those there are"
                        assert str(missing.value) == said
        assert seen.find("ann", world.ids["asleep"][:8]).id == world.ids["asleep"]
    world.check_unchanged()


def test_the_commands_close_and_show_the_librarys_sandboxes_unless_an_owner_is_named(world: World):
    def belljar(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "belljar", "sandboxes", *words], capture_output=True, text=True, timeout=60,
            check=False, env={**environ, "BELLJAR_STATE_DIR": str(world.here.settings.state_dir)},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    for act in ("show", "close"):
        code, said = belljar(act, world.ids["asleep"])
        assert code == 125
        assert "there is no durable sandbox" in said
    code, said = belljar("show", world.ids["asleep"], "--owner", "ann")
    assert code == 0
    assert world.ids["asleep"] in said
    world.check_unchanged()


def test_many_acts_of_another_owner_at_once_change_nothing(world: World):
    async def storm() -> list[tuple[str, str]]:
        acts = [
            outcome(act, world.service, stranger, name)
            for act in BY_ID.values()
            for name in world.ids.values()
            for stranger in STRANGERS
        ]
        return await asyncio.gather(*acts)

    assert {kind for kind, _ in world.wait(storm())} == {"returned", "SandboxMissing"}
    world.check_unchanged()
