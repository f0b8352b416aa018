"""What may be written to name a package, and everything that may not."""

from __future__ import annotations

import pytest

from belljar import InvalidRequest
from belljar.packages.requirements import check, has_version, is_satisfied, name_of, parse


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("numpy", "numpy"),
        ("Pandas_TA", "pandas-ta"),
        ("pandas>=1.3.0", "pandas>=1.3.0"),
        ("matplotlib==3.5.2", "matplotlib==3.5.2"),
        ("scikit-learn>=1.0,<2.0", "scikit-learn<2.0,>=1.0"),
        ("requests[security]", "requests[security]"),
        ("rich [jupyter] ~= 13.7", "rich[jupyter]~=13.7"),
        ("zope.interface!=5.*", "zope-interface!=5.*"),
        ('tomli; python_version < "3.11"', 'tomli; python_version < "3.11"'),
    ],
)
def test_every_form_of_a_requirement_is_taken_and_spelled_in_one_way(written: str, spelled: str) -> None:
    assert check([written, written]) == (spelled,)


@pytest.mark.parametrize(
    "written",
    [
        "", " ", " numpy", "numpy ", "numpy\n", "numpy\nrich", "numpy\r", "\tnumpy", "numpy\x00",
        "--index-url=http://127.0.0.1/", "-r /etc/passwd", "-e .", "--pre", "-", "-rrequirements.txt",
        "git+https://example.org/a.git", "x @ git+ssh://git@example.org/a", "x @ https://example.org/x.whl",
        "x@https://example.org/x.whl", "https://example.org/x.whl", "file:///etc/passwd", "x @ file:///x",
        "git+https://example.org/a.git@--upload-pack=touch x", "./x", "../x", "/etc/passwd", "~/x", "a/b", "a\\b",
        "x.whl", "x.tar.gz", "numpy; import os", "numpy && id", "numpy | id", "$(id)", "`id`", "numpy;id", "numpy > x",
        "numpy#egg=x", "numpy --hash=sha256:00", "numpy % x", "nump\u0443", "x===1", "a" * 400, "*", "numpy==", "num py",
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused_with_the_forms_that_there_are(written: str) -> None:
    with pytest.raises(InvalidRequest, match=r"is not a package that can be installed: .+; write a name \('rich'\)"):
        parse(written)


@pytest.mark.parametrize("given", ["numpy", b"numpy", 1, {"numpy": 1}, [1], [None], ["numpy"] * 101])
def test_anything_but_a_list_of_names_is_refused(given: object) -> None:
    with pytest.raises(InvalidRequest):
        check(given)


def test_what_is_there_satisfies_unless_extras_or_markers_may_want_more() -> None:
    there = ["rich==13.7.1", "Zope_Interface==5.0"]
    assert is_satisfied("rich", there)
    assert is_satisfied("rich>=13,<14", there)
    assert is_satisfied("zope.interface", there)
    assert not is_satisfied("rich>14", there)
    assert not is_satisfied("rich[jupyter]", there)
    assert not is_satisfied("other", there)
    assert name_of("Rich[a]>=1") == "rich"
    assert has_version({"rich": "2024.01"}, "Rich", "2024.1")
    assert not has_version({"rich": "2024.01"}, "rich", "2024.2")
