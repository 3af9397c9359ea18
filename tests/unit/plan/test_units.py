"""Figures in words: nothing is lost of what a user wrote, and nothing is claimed to be exact."""

import pytest

from llmd_ctl.plan.units import about, counted, dollars, duration
from llmd_ctl.spec.fields import microseconds


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0s"), (250, "250us"), (1_500, "1.5ms"), (40_000, "40ms"), (800_000, "800ms"),
        (1_500_000, "1.5s"), (90_000_000, "90s"), (120_000_000, "2m"), (5_400_000_000, "90m"),
        (7_200_000_000, "2h"), (1_234_567, "1234.567ms"),
    ],
)  # fmt: skip
def test_a_duration_is_in_the_unit_that_users_write_it_in(us: int, text: str) -> None:
    assert duration(us) == text
    assert us == 0 or microseconds(text) == us


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.2, "1us"), (12_340.0, "12.3ms"), (899_960.0, "900ms"), (1_512_345.6, "1.51s"),
        (12_345_678.0, "12.3s"),
    ],
)  # fmt: skip
def test_a_computed_time_has_three_digits(us: float, text: str) -> None:
    assert about(us) == text


@pytest.mark.parametrize(
    ("amount", "text"), [(2.7, "$2.70"), (0.125, "$0.125"), (3, "$3.00"), (11.06, "$11.06")]
)
def test_an_amount_has_its_cents(amount: float, text: str) -> None:
    assert dollars(amount) == text


def test_one_of_something_is_not_many() -> None:
    said = [counted(1, "request"), counted(1.0, "request"), counted(1.5, "request")]
    assert said == ["1 request", "1 request", "1.5 requests"]
