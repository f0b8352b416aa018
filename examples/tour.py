"""A short tour: output, a table, a plot, state that stays, and how long each took. `make run` runs it."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from belljar import Execution, Sandbox

FOLDER = Path("tour-output")

GREETING = """
import platform
print(f"Hello from Python {platform.python_version()}, under glass.")
"""

TABLE = """
import pandas as pd

sales = pd.DataFrame({
    "month": ["January", "February", "March", "April"],
    "sold": [120, 135, 160, 210],
})
sales.assign(growth=sales["sold"].pct_change().round(2))
"""

PLOT = """
import matplotlib.pyplot as plt

plt.figure(figsize=(6, 3.5))
plt.bar(sales["month"], sales["sold"], color="#4c72b0")  # `sales` is still here
plt.title("Sold per month")
plt.show()
f"{sales['sold'].sum()} sold in {len(sales)} months"
"""

ESCAPE = """
import urllib.request
urllib.request.urlopen("http://192.0.2.1", timeout=3)
"""


def main() -> None:
    began = time.perf_counter()
    with Sandbox() as sandbox:
        tell("A sandbox", f"on the {sandbox.engine} engine", time.perf_counter() - began)

        ran = step("Output", lambda: sandbox.run(GREETING))
        show(ran.stdout)

        ran = step("A table", lambda: sandbox.run(TABLE))
        show(ran.text or "")

        ran = step("State, and a plot", lambda: sandbox.run(PLOT))
        show(ran.text or "")
        show(f"saved to {save(ran)}")

        ran = step("No way out", lambda: sandbox.run(ESCAPE), may_fail=True)
        show(f"{ran.error.name}: {ran.error.value}" if ran.error else "the network could be reached!")

    began = time.perf_counter()
    with Sandbox() as another:
        another.run("2 + 2")
        tell("Another sandbox", "made, used", time.perf_counter() - began)


def step(title: str, act: Callable[[], Execution], may_fail: bool = False) -> Execution:
    """Run one step, say what it is and how long it took; a failure that was not meant ends the tour."""
    began = time.perf_counter()
    ran = act()
    tell(title, "", time.perf_counter() - began)
    if not may_fail:
        ran.raise_for_status()
    return ran


def save(ran: Execution) -> Path:
    """Write the first picture of a run to disk."""
    picture = next(result for result in ran.results if result.png)
    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / "plot.png"
    target.write_bytes(picture.to_bytes("png"))
    return target


def tell(title: str, detail: str, seconds: float) -> None:
    left = f"{title}, {detail}" if detail else title
    print(f"\n{left} {'.' * (56 - len(left))} {seconds * 1000:6.1f} ms")


def show(text: Any) -> None:
    for line in str(text).rstrip().splitlines():
        print(f"    {line}")


if __name__ == "__main__":
    main()
    sys.exit(0)
