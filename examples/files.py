"""Files in and out: give data to the code, take home what it made."""

import tempfile
from pathlib import Path

from belljar import Sandbox

CSV = "city,people\nOslo,709\nBergen,291\nTrondheim,212\n"

REPORT = """
import csv, json
with open("data/cities.csv") as file:
    rows = list(csv.DictReader(file))
with open("report.json", "w") as file:
    json.dump({"cities": len(rows), "people": sum(int(row["people"]) for row in rows)}, file)
"""

with Sandbox(files={"data/cities.csv": CSV}) as sandbox:
    ran = sandbox.run(REPORT).raise_for_status()
    print("made:", ", ".join(f"{file.path} ({file.size} bytes, {file.mime})" for file in ran.files))
    print("has:", ", ".join(entry.path for entry in sandbox.files.list()))
    print("says:", sandbox.files.read("report.json").decode())
    with tempfile.TemporaryDirectory() as folder:
        home = sandbox.files.download("report.json", Path(folder))
        print("at home:", home.name, home.stat().st_size, "bytes")
