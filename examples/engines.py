"""The same code behind two walls: native where this machine has it, and WebAssembly everywhere."""

import time

from belljar import EngineUnavailable, Sandbox

CODE = """
import platform, sys
import pandas as pd

print(f"Python {platform.python_version()} on {sys.platform}")
table = pd.DataFrame({"city": ["Oslo", "Bergen", "Oslo"], "rain": [3.5, 8.0, 1.5]})
table.groupby("city")["rain"].sum()
"""

for engine in ("native", "wasm"):
    began = time.perf_counter()
    try:
        with Sandbox(engine) as sandbox:
            ran = sandbox.run(CODE).raise_for_status()
            print(f"{engine}: {ran.stdout.strip()}, {(time.perf_counter() - began) * 1000:.0f} ms")
            print(ran.value)
    except EngineUnavailable as unavailable:
        print(f"{engine}: not here: {unavailable}")
