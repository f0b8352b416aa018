"""A vault of notes, mounted to be read: the code works on it, and cannot change it."""

import tempfile
from pathlib import Path

from belljar import Policy, Sandbox

SUMMARY = """
from pathlib import Path
notes = sorted(Path("/data").rglob("*.md"))
words = sum(len(note.read_text().split()) for note in notes)
with open("summary.txt", "w") as file:
    file.write(f"{len(notes)} notes, {words} words")
"""

with tempfile.TemporaryDirectory() as vault:
    Path(vault, "2026").mkdir()
    Path(vault, "ideas.md").write_text("A bell jar for every agent")
    Path(vault, "2026/plan.md").write_text("Read the notes, then write")
    for engine in ("native", "wasm"):
        with Sandbox(engine, policy=Policy(packages="none", mounts={"/data": vault})) as sandbox:
            sandbox.run(SUMMARY).raise_for_status()
            print(f"{engine}:", sandbox.files.read("summary.txt").decode())
            ran = sandbox.run("open('/data/ideas.md', 'a').write('mine now')")
            print(f"{engine}:", ran.error.value if ran.error else "written")
            Path(vault, "new.md").write_text("Seen at once")
            print(f"{engine}:", sandbox.run("open('/data/new.md').read()").value)
            Path(vault, "new.md").unlink()
