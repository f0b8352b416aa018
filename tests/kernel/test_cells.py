"""Numbers and names as pandas writes them, or not at all. That they are the same is tested where pandas is."""

from __future__ import annotations

import pytest

from belljar_kernel import cells

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1.0, 2.5], [" 1.0", " 2.5"]),
        ([1.0, -20.0, NAN], [" 1.0", "-20.0", "NaN"]),
        ([0.1 + 0.2, 1e6], [" 0.3", " 1000000.0"]),
        ([1 / 3, 100.0], [" 0.333333", " 100.000000"]),
        ([0.0, -0.0], [" 0.0", "-0.0"]),
        ([NAN, NAN], ["NaN", "NaN"]),
        ([1e-6], [" 0.000001"]),
    ],
)
def test_floats_have_as_many_digits_as_all_of_them_need(values: list[float], texts: list[str]):
    assert cells.numbers("float64", values, 6) == texts


@pytest.mark.parametrize("value", [INF, -INF, 1000000.5, 9.9e-7, -1e-9])
def test_what_may_need_powers_of_ten_is_left_to_pandas(value: float):
    assert cells.numbers("float64", [1.0, value], 6) is None


@pytest.mark.parametrize(
    ("dtype", "values", "digits"),
    [
        ("object", [1.0], 6),
        ("float64", [1.0, 2], 6),
        ("float64", [1.0], 0),
        ("int64", [True], 6),
        ("Int64", [1], 6),
        ("float32", [0.5], 6),
    ],
)
def test_so_is_what_is_not_a_plain_column(dtype: str, values: list[object], digits: int):
    assert cells.numbers(dtype, values, digits) is None


def test_whole_numbers_have_room_for_a_sign():
    assert cells.numbers("int64", [1, -20], 6) == [" 1", "-20"]


def test_names_are_as_they_are_unless_one_would_be_changed():
    assert cells.names(["a", "", "b c", "25%"]) == ["a", "", "b c", "25%"]
    for changed in (" a", "\xa0a", "\u3000", "a\nb", "a\tb", "a\rb", 1, None):
        assert cells.names(["a", changed]) is None
