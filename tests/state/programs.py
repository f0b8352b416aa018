"""Code that makes a state, code that uses it, and what comes out."""

from __future__ import annotations

SCIENCE = """
import math as m
import numpy as np, pandas as pd
from sklearn.linear_model import LinearRegression
df = pd.DataFrame({"a": [1.0, 2.0, None], "s": list("xyz"), "t": pd.date_range("2024-01-01", periods=3)})
arr = np.arange(6).reshape(2, 3)
model = LinearRegression().fit([[1], [2], [3]], [2, 4, 6])
def f(n): return n + len(df)
class Thing:
    def __init__(self, n): self.n = n
    def more(self): return f(self.n)
thing = Thing(1)
"""
USES_IT = """[m.sqrt(4), df["a"].sum(), df["s"].tolist(), str(df["t"].dt.year.tolist()), arr.sum(),
    round(float(model.predict([[4]])[0]), 6), f(1), thing.more(), isinstance(thing, Thing)]"""
USED = [2.0, 3.0, ["x", "y", "z"], "[2024, 2024, 2024]", 15, 8.0, 4, 4, True]

STRUCTURES = """
from dataclasses import dataclass, field
from typing import NamedTuple
import enum, wsgiref.simple_server
@dataclass
class D:
    a: int
    b: list = field(default_factory=list)
    def size(self): return len(self.b)
class N(NamedTuple):
    a: int
    b: str = "b"
    def both(self): return f"{self.a}{self.b}"
class C(enum.Enum):
    RED = 1
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    return up
up = counter(); up()
d, n, c = D(1, [2]), N(4), C.RED
shared = [1]; alias = shared
exec("def made(): return 1")
open("f.txt", "w").write("text")
"""
USES_STRUCTURES = (
    "[repr(d), d.size(), repr(D(5)), n.both(), type(n) is N, c is C.RED, up(), alias is shared, open('f.txt').read(),"
    " wsgiref.simple_server.__name__]"
)
USED_STRUCTURES = ["D(a=1, b=[2])", 1, "D(a=5, b=[])", "4b", True, True, 2, True, "text", "wsgiref.simple_server"]
