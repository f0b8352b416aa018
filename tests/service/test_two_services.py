"""Two owners, on one service or on a service each: whatever one does to the other's ids, nothing is seen and nothing changes."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.service.acts import BY_ID, every, outcome
from tests.service.conftest import Kind, MakeHost

from belljar.compose import LocalHost
from belljar.errors import CheckpointRefused, SandboxClosed
from belljar.execution import Execution
from belljar.service.base import Reply, RunRequest

ACTS, MOST = 100, 5  # of each owner; sandboxes of an owner at once


@dataclass
class Known:
    """What a sandbox must have, as its owner has left it."""

    number: int | None = None  # the value of n, if there is one
    files: dict[str, bytes] = field(default_factory=dict)
    is_durable: bool = False


class Actor:
    """One owner, who does what an owner may do and knows what must come of it."""

    def __init__(self, here: LocalHost, owner: str, kind: Kind, seed: int) -> None:
        self.here = here
        self.service = here.service
        self.owner = owner
        self.known: dict[str, Known] = {}
        self.saved: list[tuple[bytes, Known]] = []
        self.done: list[str] = []
        self._kind = kind
        self._random = random.Random(seed)
        self._mine: dict[str, Callable[[str], Any]] = {
            "run": self._run,
            "write_file": self._write_file,
            "read_file": self._read_file,
            "delete_file": self._delete_file,
            "reset": self._reset,
            "checkpoint": self._checkpoint,
            "restore": self._restore,
            "fork": self._fork,
            "hibernate": self._hibernate,
            "close": self._close,
            "looks": self._look,
        }

    def wait(self, act: Any) -> Any:
        return self.here.background.wait(act)

    async def create(self) -> None:
        is_durable = self._random.random() < 0.4
        request = self._kind.request(durable=is_durable, files={"first": self.owner.encode()})
        made = await self.service.create(self.owner, request)
        self.known[made.id] = Known(None, {"first": self.owner.encode()}, is_durable)

    async def act(self) -> None:
        """Do one thing that this owner may do, and check what came of it."""
        if len(self.known) < 2:
            await self.create()
            self.done.append("create")
        name = self._random.choice(sorted(self._mine))
        await self._mine[name](self._random.choice(sorted(self.known)))
        self.done.append(name)
        listed = await self.service.list(self.owner)
        assert {info.id for info in listed} == set(self.known)

    async def trespass(self, theirs: list[str]) -> None:
        """Try one act on a sandbox of another owner: it is as on an id that never was."""
        name, target = self._random.choice(sorted(BY_ID)), self._random.choice(theirs)
        got = await outcome(BY_ID[name], self.service, self.owner, target)
        assert got == await outcome(BY_ID[name], self.service, self.owner, str(uuid.uuid4()))
        assert got[0] == ("returned" if name == "close" else "SandboxMissing")
        self.done.append(f"{name} of another")

    async def check(self, id: str) -> None:
        """Everything is in a sandbox that must be there, and nothing else."""
        known = self.known[id]
        assert await self._value(id, "globals().get('n')") == known.number
        entries = await self.service.list_files(self.owner, id)
        assert {entry.path for entry in entries if entry.type == "file"} == set(known.files)
        for path, content in known.files.items():
            assert b"".join(await every(self.service.read_file(self.owner, id, path))) == content

    async def _value(self, id: str, code: str) -> object:
        (ran,) = await every(self.service.run(self.owner, id, RunRequest(code)))
        assert isinstance(ran, Execution)
        assert ran.error is None, ran.error
        return ran.value

    async def _run(self, id: str) -> None:
        known = self.known[id]
        known.number = (known.number or 0) + self._random.randrange(1, 1000)
        assert await self._value(id, f"n = {known.number}; n") == known.number

    async def _write_file(self, id: str) -> None:
        path, content = f"{self._random.randrange(3)}.txt", f"{self.owner} {self._random.random()}".encode()
        await self.service.write_file(self.owner, id, path, content)
        self.known[id].files[path] = content

    async def _read_file(self, id: str) -> None:
        await self.check(id)

    async def _delete_file(self, id: str) -> None:
        if files := self.known[id].files:
            path = self._random.choice(sorted(files))
            await self.service.delete_file(self.owner, id, path)
            del files[path]

    async def _reset(self, id: str) -> None:
        await self.service.reset(self.owner, id)
        self.known[id].number = None

    async def _checkpoint(self, id: str) -> None:
        saved = await self.service.checkpoint(self.owner, id)
        known = self.known[id]
        self.saved.append((saved.to_bytes(), Known(known.number, dict(known.files))))

    async def _restore(self, _: str) -> None:
        if self.saved and len(self.known) < MOST:
            saved, known = self._random.choice(self.saved)
            made = await self.service.restore(self.owner, saved, self._kind.request())
            self.known[made.id] = Known(known.number, dict(known.files))
            await self.check(made.id)

    async def _fork(self, id: str) -> None:
        if len(self.known) < MOST:
            (made,) = await self.service.fork(self.owner, id, 1)
            self.known[made.id] = Known(self.known[id].number, dict(self.known[id].files))
            await self.check(made.id)

    async def _hibernate(self, id: str) -> None:
        if self.known[id].is_durable:
            assert await self.service.hibernate(self.owner, id)
            assert (await self.service.get(self.owner, id)).state == "asleep"

    async def _close(self, id: str) -> None:
        await self.service.close(self.owner, id)
        del self.known[id]

    async def _look(self, id: str) -> None:
        found = await self.service.get(self.owner, id)
        assert (found.id, found.durable) == (id, self.known[id].is_durable)
        await self.service.interrupt(self.owner, id)
        await self.service.answer_call(self.owner, id, Reply(7, self.owner))
        assert await self.service.install(self.owner, id, ()) == []
        names = [variable.name for variable in await self.service.variables(self.owner, id)]
        assert ("n" in names) == (self.known[id].number is not None)
        assert "len" in {each.text for each in await self.service.complete(self.owner, id, "le", 2)}


@pytest.fixture(params=["a service each", "one service"])
def actors(request: pytest.FixtureRequest, make_host: MakeHost, kind: Kind) -> tuple[Actor, Actor]:
    one = make_host()
    other = one if request.param == "one service" else make_host()
    return Actor(one, "ann", kind, 1), Actor(other, "bob", kind, 2)


def live(act: Any) -> Any:
    return asyncio.wait_for(act, 120)


def test_two_hundred_mixed_acts_of_two_owners_stay_apart(actors: tuple[Actor, Actor]):
    for actor in actors:
        for _ in range(3):
            actor.wait(actor.create())

    def use(actor: Actor, other: Actor) -> None:
        async def acts() -> None:
            for number in range(ACTS):
                if number % 2:
                    await actor.trespass(list(other.known))
                else:
                    await actor.act()

        actor.wait(live(acts()))

    with ThreadPoolExecutor(2) as pool:
        ann, bob = actors
        for used in (pool.submit(use, ann, bob), pool.submit(use, bob, ann)):
            used.result()
    for actor in actors:
        assert len(actor.done) >= ACTS
        assert {name.removesuffix(" of another") for name in actor.done} >= {"run", "fork", "hibernate", "close"}
        listed = actor.wait(actor.service.list(actor.owner))
        assert {info.id for info in listed} == set(actor.known)
        assert {session.id for session in actor.here.host.sessions(actor.owner)} <= set(actor.known)
        for id_ in actor.known:
            actor.wait(live(actor.check(id_)))


def test_a_checkpoint_of_one_is_refused_by_the_other(actors: tuple[Actor, Actor], kind: Kind):
    ann, bob = actors
    ann.wait(ann.create())
    (id_,) = ann.known
    saved = ann.wait(ann.service.checkpoint("ann", id_)).to_bytes()
    with pytest.raises(CheckpointRefused):
        bob.wait(bob.service.restore("bob", saved, kind.request()))
    assert bob.here.host.sessions("bob") == []
    ann.wait(ann.check(id_))


def test_who_asks_for_the_id_of_another_gets_one_that_it_would_have_got_anyway(actors: tuple[Actor, Actor], kind: Kind):
    ann, bob = actors
    ann.wait(ann.create())
    (id_,) = ann.known
    made = bob.wait(bob.service.create("bob", kind.request(id=id_)))
    assert made.id not in (id_, *(ann.known))
    assert bob.wait(bob.service.create("bob", kind.request(id=id_))).id == made.id
    bob.known[made.id] = Known()
    bob.wait(bob._run(made.id))
    bob.wait(bob._close(made.id))
    ann.wait(ann.check(id_))
    ann.wait(ann._close(id_))
    with pytest.raises(SandboxClosed):
        bob.wait(bob.service.create("bob", kind.request(id=id_)))
