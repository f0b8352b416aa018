"""What uv says, understood; without uv."""

from __future__ import annotations

import pytest

from belljar.packages.failure import InstallFailed
from belljar.packages.layers import Resolved
from belljar.packages.uv import resolved

HASH = f"    --hash=sha256:{'0' * 64}"
OURS = "file:///cache/built/our-2.0-py3-none-any.whl"


def test_versions_and_our_own_wheels_are_what_is_installed() -> None:
    said = f"a-b==1.0+cpu \\\n{HASH} \\\n{HASH}\nour @ {OURS} \\\n{HASH}\n"
    assert resolved(said, [OURS]) == [
        Resolved("a-b", "1.0+cpu", f"a-b==1.0+cpu \\\n{HASH} \\\n{HASH}"),
        Resolved("our", "2.0", f"our @ {OURS} \\\n{HASH}"),
    ]


@pytest.mark.parametrize(
    "line",
    ["b @ http://127.0.0.1/b-1.0-py3-none-any.whl", "b @ file:///etc/b-1.0-py3-none-any.whl", "--find-links /etc",
     "b @ git+http://127.0.0.1/b", "b==1.0 @ http://127.0.0.1/b-1.0-py3-none-any.whl", "-r /etc/passwd", "    b"],
)  # fmt: skip
def test_a_line_that_a_package_brought_in_is_refused(line: str) -> None:
    for said in (f"{line}\n", f"a==1.0 \\\n{HASH}\n{line} \\\n{HASH}\n"):
        with pytest.raises(InstallFailed, match="only names are followed") as caught:
            resolved(said, [OURS])
        assert caught.value.kind == "refused"
