"""A pack says where each file is; folders at its top are texts, which nobody has to parse before they are needed."""

from __future__ import annotations

import json
from pathlib import Path

from belljar.engines.wasm.pack import Packing


def test_folders_at_the_top_are_texts_and_files_are_places(tmp_path: Path):
    with Packing(tmp_path / "some") as packing:
        packing.add(("alone.py",), b"1")
        packing.add(("package", "inner", "deep.py"), b"22")
        packing.add(("package", "large.bin"), b"x" * 5000)
    index = json.loads((tmp_path / "some.json").read_text())
    assert index["alone.py"] == [0, 1]
    assert json.loads(index["package"]) == {"inner": {"deep.py": [1, 2]}, "large.bin": [16, 5000]}
    assert (tmp_path / "some.bin").read_bytes()[16:] == b"x" * 5000
