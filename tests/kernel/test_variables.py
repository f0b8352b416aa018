from __future__ import annotations


def listed(guest):
    return {variable["name"]: variable for variable in guest.request(type="variables").done["variables"]}


def test_variables_have_type_preview_and_size(guest):
    guest.run(
        "import math\nfrom math import pi\nn = 5\ns = 'x' * 500\nitems = [1, 2]\nd = {}\n_hidden = 1\ndef f(): pass\nclass C: pass\nc = C()\nnothing = None\nbig = 10 ** 5000"
    )
    found = listed(guest)
    assert list(found) == ["C", "big", "c", "d", "f", "items", "n", "nothing", "pi", "s"]
    assert found["n"] == {"name": "n", "type": "int", "preview": "5", "size": None, "shape": None}
    assert found["items"] == {"name": "items", "type": "list", "preview": None, "size": 2, "shape": None}
    assert (found["c"]["type"], found["f"]["type"], found["C"]["type"]) == ("C", "function", "type")
    assert (found["s"]["size"], len(found["s"]["preview"])) == (500, 103)
    assert found["big"]["preview"] is None


def test_an_empty_session_has_none(guest):
    assert listed(guest) == {}
    guest.run("_args", args=1)
    assert listed(guest) == {}


def test_listing_runs_no_code_of_the_objects(guest):
    guest.run("""
ran = []
def tell(*args): ran.append(args); raise RuntimeError
class Meta(type):
    __name__ = property(tell)
    __repr__ = __getattribute__ = __instancecheck__ = __subclasscheck__ = __eq__ = __hash__ = tell
class Hostile(metaclass=Meta):
    __repr__ = __len__ = __getattribute__ = __eq__ = __hash__ = tell
    __class__ = shape = property(tell)
class HostileList(list):
    __len__ = __repr__ = tell
h = Hostile()
l = HostileList()
""")
    found = listed(guest)
    assert (found["h"]["type"], found["l"]["type"], found["Hostile"]["type"]) == ("Hostile", "HostileList", "Meta")
    assert guest.run("len(ran)").text == "0"


def test_a_forged_pandas_is_not_asked(guest):
    guest.run("""
import sys, types
saved = sys.modules.get('pandas')
class DataFrame:
    shape = property(lambda self: ran.append(1) or (1, 1))
ran = []
sys.modules['pandas'] = types.ModuleType('pandas')
sys.modules['pandas'].DataFrame = DataFrame
df = DataFrame()
""")
    assert listed(guest)["df"]["shape"] is None
    guest.run("if saved is None: del sys.modules['pandas']\nelse: sys.modules['pandas'] = saved")
    assert guest.run("ran").text == "[]"


def test_arrays_and_tables_have_a_shape(guest, science):
    guest.run("import numpy as np, pandas as pd\na = np.zeros((3, 4))\ndf = pd.DataFrame({'x': [1, 2]})\ns = df['x']")
    found = listed(guest)
    assert (found["a"]["shape"], found["a"]["size"], found["a"]["type"]) == ([3, 4], 12, "ndarray")
    assert (found["df"]["shape"], found["s"]["shape"]) == ([2, 1], [2])
