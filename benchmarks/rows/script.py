"""A small script with pandas, with nothing kept warm: what the wall costs someone who only types a command."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measure import Contestant, Effort, Row, Target, in_turns, milliseconds
from benchmarks.peers import plain
from benchmarks.rows import command

SCRIPT = """\
import io
import pandas as pd

sales = "\\n".join(f"{('north', 'south', 'west')[i % 3]},{i % 7},{i * 0.25}" for i in range(2000))
table = pd.read_csv(io.StringIO("region,units,price\\n" + sales))
print(table.groupby("region").agg({"units": "sum", "price": "mean"}))
"""


def measure(effort: Effort, stage: ExitStack) -> Row:
    """`belljar run script.py` against the same script, interpreter and packages without a wall."""
    path = Path(stage.enter_context(tempfile.TemporaryDirectory())) / "sales.py"
    path.write_text(SCRIPT)
    entrants = [
        Contestant(
            "belljar run", lambda: milliseconds(lambda: command.run(str(path))), True, Target(1.5, times=plain.NAME)
        ),
        Contestant(plain.NAME, lambda: milliseconds(lambda: plain.run(str(path)))),
    ]
    return Row("script", "belljar run of a pandas script, nothing warm", in_turns(entrants, effort))
