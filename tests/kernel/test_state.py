"""The `save` and `load` Requests, in a kernel of this process and into another one."""

from __future__ import annotations

import marshal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kernel.conftest import Answered, InProcess

from belljar.packages import companion
from belljar_kernel import travelling
from belljar_kernel.depth import is_too_deep
from belljar_kernel.kernel import Kernel

pytestmark = pytest.mark.usefixtures("beside")

Parts = list[tuple[dict[str, Any], list[str]]]


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What stands beside the kernel in every sandbox stands beside this one too."""
    folder = tmp_path_factory.mktemp("inside")
    for parts, content in companion.files().items():
        folder.joinpath(*parts).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(*parts).write_bytes(content)
    sys.path.append(str(folder))
    import belljar_kernel.state  # noqa: F401 -- imports it while the folder is there

    sys.path.remove(str(folder))


def save(guest: InProcess, max_bytes: int = 1 << 30) -> tuple[dict[str, Any], Parts]:
    answered = guest.request(type="save", max_bytes=max_bytes)
    assert "error" not in answered.done, answered.done
    return answered.done, parts_of(answered)


def parts_of(answered: Answered) -> Parts:
    pieces: dict[int, list[str]] = {}
    for event in answered.events:
        if event["type"] == "state":
            pieces.setdefault(event["part"], []).append(event["data"])
    return [(part, pieces.get(part["part"], [""])) for part in answered.done["parts"]]


def load(guest: InProcess, parts: Parts) -> tuple[list[str], dict[str, str]]:
    loaded, skipped = [], {}
    for part, pieces in parts:
        for number, piece in enumerate(pieces, 1):
            fields = {
                "kind": part["kind"],
                "names": part["names"],
                "data": piece,
                "packed": False,
                "last": number == len(pieces),
            }
            done = guest.request(type="load", **fields).done
        assert "error" not in done, done
        loaded += done["loaded"]
        skipped |= done["skipped"]
    return loaded, skipped


def elsewhere(guest: InProcess, parts: Parts) -> dict[str, str]:
    """Load into a kernel that knows nothing yet; what could not be loaded."""
    guest.kernel = Kernel(workspace=str(guest.workspace))
    return load(guest, parts)[1]


def moved(guest: InProcess, code: str) -> None:
    """Run code, and go on in another kernel."""
    assert guest.run(code).done["status"] == "ok"
    done, parts = save(guest)
    assert done["skipped"] == {}
    assert elsewhere(guest, parts) == {}


def value(guest: InProcess, code: str) -> Any:
    answered = guest.run(code)
    assert answered.done["error"] is None, answered.done["error"]["traceback"]
    return answered.done["value"]


@pytest.fixture(params=["the same Python", "another Python"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading as the same Python, and as one that may not load its bytecode."""
    if request.param == "another Python":
        reduced, none = travelling.reduced, b"\0\0\0\0"
        monkeypatch.setattr(travelling, "reduced", lambda *of: (reduced(*of)[0], (none, *reduced(*of)[1][1:])))
        unused = SimpleNamespace(
            dumps=marshal.dumps, loads=lambda _: pytest.fail("bytecode of another Python was loaded")
        )
        monkeypatch.setattr(travelling, "marshal", unused)


@pytest.mark.usefixtures("python")
def test_functions_live_in_the_namespace_that_they_are_restored_to(guest: InProcess):
    moved(guest, "x = 41\ndef f(a, b=1, *, c=0):\n    'doc'\n    return a + b + c + x")
    assert value(guest, "x = 100\n[f(1), f.__doc__, f.__globals__ is globals()]") == [102, "doc", True]


@pytest.mark.usefixtures("python")
def test_closures_keep_what_they_share_and_what_they_call(guest: InProcess):
    moved(
        guest,
        "def make():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n    def get():\n        return n\n"
        "    def down(k):\n        return 0 if k == 0 else 1 + down(k - 1)\n    return up, get, down\n"
        "up, get, down = make(); up()\nlambdas = [lambda v, i=i: v * i for i in range(3)]; one, two = lambda: 1, lambda: 2",
    )
    assert value(guest, "up()\n[get(), down(4), [each(10) for each in lambdas], one(), two()]") == [
        2,
        4,
        [0, 10, 20],
        1,
        2,
    ]


@pytest.mark.usefixtures("python")
def test_classes_and_their_instances_belong_together_again(guest: InProcess):
    moved(
        guest,
        "import abc\nclass Base(abc.ABC):\n    @abc.abstractmethod\n    def go(self): ...\n"
        "class P(Base):\n    kind: str = 'p'\n    def __init__(self, v): self.v = v\n    def go(self): return self.v\n"
        "    @property\n    def twice(self): return 2 * self.v\n    @classmethod\n    def make(cls): return cls(9)\n"
        "class Q(P):\n    __slots__ = ()\n    def go(self): return super().go() * 10\np, q = P(1), Q(2)",
    )
    assert value(guest, "[p.go(), p.twice, P.make().v, q.go(), type(p) is P, isinstance(q, P), P.__annotations__['kind'] is str]") == [
        1, 2, 9, 20, True, True, True,
    ]  # fmt: skip
    assert guest.run("Base()").error["name"] == "TypeError"


@pytest.mark.usefixtures("python")
def test_generated_classes_are_generated_again(guest: InProcess):
    moved(
        guest,
        "from dataclasses import dataclass, field\nfrom collections import namedtuple\nfrom typing import NamedTuple\nimport enum\n"
        "@dataclass(order=True)\nclass D:\n    a: int\n    b: list = field(default_factory=list)\n    c: str = 'x'\n"
        "    def size(self): return len(self.b)\n"
        "@dataclass(frozen=True, slots=True)\nclass F:\n    a: int = 5\n"
        "Pt = namedtuple('Pt', 'x y', defaults=[2])\n"
        "class N(NamedTuple):\n    a: int\n    b: str = 'b'\n    def both(self): return f'{self.a}{self.b}'\n"
        "class C(enum.Enum):\n    RED = 1\n    def low(self): return self.name.lower()\n"
        "d, f, pt, n, c = D(1, [2]), F(3), Pt(1), N(4), C.RED",
    )
    assert value(guest, "[repr(d), repr(D(7)), d.size(), D(1) < D(2), type(d) is D, repr(f), repr(F()), hasattr(f, '__dict__')]") == [
        "D(a=1, b=[2], c='x')", "D(a=7, b=[], c='x')", 1, True, True, "F(a=3)", "F(a=5)", False,
    ]  # fmt: skip
    assert value(guest, "[repr(pt), repr(pt._replace(x=3)), type(pt) is Pt, n.both(), repr(N(1)), c is C.RED, C(1).low()]") == [
        "Pt(x=1, y=2)", "Pt(x=3, y=2)", True, "4b", "N(a=1, b='b')", True, "red",
    ]  # fmt: skip
    assert guest.run("f.a = 1").error["name"] == "FrozenInstanceError"


@pytest.mark.parametrize(
    ("code", "use", "expected"),
    [
        ("import functools\n@functools.lru_cache(8)\ndef f(n): return n * 2", "[f(2), f.cache_info().maxsize]", [4, 8]),
        ("import functools\ndef deco(g):\n    @functools.wraps(g)\n    def h(n): return g(n) + 1\n    return h\n"
         "@deco\ndef f(n): return n", "[f(1), f.__name__]", [2, "f"]),
        ("import contextlib\n@contextlib.contextmanager\ndef f():\n    yield 5", "with f() as n:\n    m = n\nm", 5),
        ("import functools\nclass C:\n    @functools.cached_property\n    def p(self): return [1]\nc = C()",
         "[c.p, c.p is c.p, C().p is c.p]", [[1], True, False]),
        ("class E(ValueError):\n    def __init__(self, a, b):\n        super().__init__(a)\n        self.b = b\ne = E(1, 2)",
         "[e.args, e.b, isinstance(e, E)]", [[1], 2, True]),
        ("from typing import Protocol\nclass P(Protocol):\n    def go(self) -> int: ...\n"
         "class G(P):\n    def go(self): return 3\ng = G()", "[P._is_protocol, g.go()]", [True, 3]),
        ("from typing import Generic, TypeVar\nT = TypeVar('T')\nclass B(Generic[T]):\n    v = 1\nb = B[int]()",
         "[b.v, B[str].__origin__ is B]", [1, True]),
        ("class M(type):\n    def __call__(cls):\n        made = super().__call__()\n        made.tag = 'm'\n        return made\n"
         "class C(metaclass=M): pass\nc = C()", "[c.tag, C().tag, type(C) is M]", ["m", "m", True]),
        ("import collections\nd = collections.defaultdict(lambda: 7)", "d['x']", 7),
        ("class N:\n    pass\na, b = N(), N(); a.other = b; b.other = a", "[a.other is b, b.other is a]", [True, True]),
        ("class S(dict):\n    def more(self): return len(self) + 1\ns = S(a=1); bound = s.more", "[bound(), bound.__self__ is s]", [2, True]),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("python")
def test_what_people_write_comes_back(guest: InProcess, code: str, use: str, expected: object):
    moved(guest, code)
    assert value(guest, use) == expected


def test_an_instance_that_cannot_be_rebuilt_leaves_its_class_alone(guest: InProcess):
    guest.run(
        "class C:\n    def __init__(self): super().__init__()\n    def __setstate__(self, _): raise OSError('no')\nc = C(); c.a = 1"
    )
    _, parts = save(guest)
    assert elsewhere(guest, parts) == {"c": "OSError: no"}
    assert value(guest, "C.__name__") == "C"


def test_code_without_a_cell_stays_behind_on_another_python_and_costs_nothing_else(
    guest: InProcess, monkeypatch: pytest.MonkeyPatch
):
    guest.run("exec('def made(): return 5')\ndef written(): return 6")
    _, parts = save(guest)
    monkeypatch.setattr(travelling, "MAGIC_NUMBER", b"\0\0\0\0")
    assert list(elsewhere(guest, parts)) == ["made"]
    assert value(guest, "written()") == 6


def test_names_that_share_an_object_share_it_again(science: str, guest: InProcess):
    guest.run(
        "import numpy as np\na = [1]; b = a; c = {'a': a}; arr = np.arange(3); same = arr; other = np.arange(3); alone = [1]"
    )
    _, parts = save(guest)
    groups = [part["names"] for part, _ in parts if len(part["names"]) > 1]
    assert groups == [["a", "b", "c"], ["arr", "same"]]
    assert elsewhere(guest, parts) == {}
    assert value(guest, "[a is b, c['a'] is a, same is arr, other is arr, a is alone]") == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_what_cannot_be_saved_is_named_with_its_reason_and_costs_nothing_else(guest: InProcess):
    guest.run(
        "import threading\nx = 1\ngen = (i for i in ()); lock = threading.Lock(); within = {'deep': [lock]}\n"
        "file = open('a.txt', 'w')\nclass Bad:\n    def __reduce__(self): raise SystemExit('boom')\nbad = Bad()\n"
        "class Never:\n    def __reduce__(self): return 3\nnever = Never()\n"
        "deep = []\nfor _ in range(100_000): deep = [deep]\ny = [x]"
    )
    done, parts = save(guest)
    before, reasons = guest.kernel, done["skipped"]
    assert sorted(reasons) == ["bad", "deep", "file", "gen", "lock", "never", "within"]
    assert "generator" in reasons["gen"]
    assert "open file" in reasons["file"]
    assert "lock" in reasons["lock"]
    assert "lock" in reasons["within"]
    assert "boom" in reasons["bad"]
    assert "recursion" in reasons["deep"]
    assert elsewhere(guest, parts) == {}
    assert value(guest, "[x, y, Bad.__name__]") == [1, [1], "Bad"]
    before.session.namespace["file"].close()


@pytest.mark.parametrize(
    ("code", "deep"),
    [
        ("v = []\nfor _ in range(100_000): v = [v]", True),
        ("class N:\n    pass\nv = None\nfor _ in range(5000):\n    n = N(); n.next = v; v = n", True),
        ("v = [[] for _ in range(5000)]\nfor a, b in zip(v, v[1:]): a.append(b)", True),
        ("v = [[i] for i in range(5000)]; v.append(v)", False),
        (
            "import json, collections\nv = {'a': (1, [2, {3}]), 'm': json, 'f': json.dumps, 'c': collections.Counter('abc')}",
            False,
        ),
    ],
)
def test_what_is_nested_too_deeply_for_webassembly_is_known_before_it_is_tried(guest: InProcess, code: str, deep: bool):
    guest.run(code)
    assert is_too_deep(guest.kernel.session.namespace["v"]) is deep


def test_what_cannot_be_loaded_is_named_with_its_reason_and_costs_nothing_else(guest: InProcess):
    guest.run("import sys, types\nsys.modules['gone'] = gone = types.ModuleType('gone'); gone.__spec__ = sys.__spec__\n"
              "class Trap:\n    def __setstate__(self, state): raise OSError('snap')\ntrap = Trap(); trap.a = 1\nx = 1")  # fmt: skip
    _, parts = save(guest)
    del sys.modules["gone"]
    skipped = elsewhere(guest, parts)
    assert skipped == {"gone": "ModuleNotFoundError: No module named 'gone'", "trap": "OSError: snap"}
    assert value(guest, "x") == 1


def test_a_name_that_is_too_large_is_left_out(guest: InProcess):
    guest.run("small = b's' * 1000; large = b'l' * 1_000_000; last = 'z'")
    done, _ = save(guest, max_bytes=500_000)
    assert done["saved"] == ["small", "last"]
    assert "bytes do not fit" in done["skipped"]["large"]


def test_a_large_value_leaves_in_pieces_and_comes_back_whole(science: str, guest: InProcess):
    guest.run("import numpy as np\nbig = np.arange(3_000_000)")
    _, parts = save(guest)
    pieces = next(pieces for part, pieces in parts if part["names"] == ["big"])
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 9 << 20
    assert elsewhere(guest, parts) == {}
    assert value(guest, "int(big.sum())") == sum(range(3_000_000))


def test_files_keep_their_modes_links_times_and_odd_names(guest: InProcess):
    guest.run(
        "import os\nfrom pathlib import Path\nos.makedirs('d/closed'); Path('d/closed/f').write_text('x'); os.chmod('d/closed', 0o500)\n"
        "os.symlink('/etc/passwd', 'out'); os.symlink('d', 'in'); Path(os.fsdecode(b'\\xff\\xfe')).write_text('odd')\n"
        "Path('run.sh').write_text('#'); os.chmod('run.sh', 0o755); os.utime('run.sh', (1e9, 1e9)); os.mkfifo('pipe')"
    )
    done, parts = save(guest)
    assert done["files_skipped"] == {"pipe": "it is no file, folder or link"}
    guest.workspace = guest.workspace.parent / "another"
    guest.workspace.mkdir()
    assert elsewhere(guest, parts) == {}
    look = (
        "import os\n[oct(os.stat('d/closed').st_mode), Path('d/closed/f').read_text(), os.readlink('out'), os.readlink('in'),"
        " Path(os.fsdecode(b'\\xff\\xfe')).read_text(), oct(os.stat('run.sh').st_mode), os.stat('run.sh').st_mtime, os.path.lexists('pipe')]"
    )
    assert value(guest, look) == ["0o40500", "x", "/etc/passwd", "d", "odd", "0o100755", 1e9, False]
    Path(guest.workspace, "d/closed").chmod(0o700)


def test_modules_of_the_workspace_are_imported_again(guest: InProcess):
    guest.run(
        "import pathlib; pathlib.Path('own.py').write_text('class Thing:\\n    n = 7\\n')\nimport own\nthing = own.Thing()"
    )
    _, parts = save(guest)
    sys.modules.pop("own")
    assert elsewhere(guest, parts) == {}
    assert value(guest, "[thing.n, own.Thing is type(thing)]") == [7, True]


def test_tracebacks_show_the_source_of_restored_functions(guest: InProcess):
    moved(guest, "def f():\n    return 1 / 0  # here")
    assert "    return 1 / 0  # here" in guest.run("f()").error["traceback"]


def test_future_statements_hold_in_later_cells(guest: InProcess):
    moved(guest, "from __future__ import annotations\ndef f(a: Later): ...")
    assert value(guest, "def g(a: Never): ...\n[f.__annotations__, g.__annotations__]") == [
        {"a": "Later"},
        {"a": "Never"},
    ]


def test_nonsense_to_load_is_an_error_and_nothing_else(guest: InProcess):
    done = guest.request(type="load", kind="names", names=["x"], data="bm9wZQ==", packed=False, last=True).done
    assert list(done["skipped"]) == ["x"]
    assert (
        guest.request(type="load", kind="names", names=["x"], data="!", packed=False, last=True).done["status"]
        == "error"
    )
    assert value(guest, "1 + 1") == 2
