"""Token counts: what is unknown is not zero, and a sum that lacks something says so."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.usage import Usage

FULL = Usage(10, 5, 15, 4, 2, 3)


def test_every_count_is_summed_by_itself() -> None:
    assert FULL + Usage(1, 2, 3, 4, 5, 6) == Usage(11, 7, 18, 8, 7, 9)


def test_what_neither_side_knows_stays_unknown() -> None:
    total = Usage(1, 2) + Usage(3, 4)
    assert total == Usage(4, 6)
    assert total.cached_input_tokens is None
    assert total.complete


def test_zero_is_known() -> None:
    assert Usage(0, 0, cached_input_tokens=0) + Usage(0, 0) == Usage(0, 0, cached_input_tokens=0)


def test_a_count_that_one_side_lacks_is_that_of_the_other() -> None:
    assert (Usage(1, 2, reasoning_tokens=3) + Usage(1, 2)).reasoning_tokens == 3
    assert (Usage(1, 2) + Usage(1, 2, reasoning_tokens=3)).reasoning_tokens == 3


@pytest.mark.parametrize("lacking", [None, Usage(), Usage(1), Usage(None, 1), Usage(1, 1, complete=False)])
def test_a_sum_that_lacks_a_request_is_a_lower_bound(lacking: Usage | None) -> None:
    total = FULL + lacking
    assert not total.complete
    assert (total.input_tokens or 0) >= 10
    if lacking is not None:
        assert not (lacking + FULL).complete


def test_a_lower_bound_never_becomes_complete_again() -> None:
    assert not (FULL + None + FULL).complete


def test_counts_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        FULL.input_tokens = 1  # type: ignore[misc]


counts = st.none() | st.integers(0, 1000)
usages = st.builds(Usage, counts, counts, counts, counts, counts, counts, st.booleans())


@given(usages, usages)
def test_the_order_of_two_does_not_matter(a: Usage, b: Usage) -> None:
    assert a + b == b + a


@given(st.lists(usages, min_size=1, max_size=5))
def test_a_sum_is_the_sum_of_what_is_known(all_of_them: list[Usage]) -> None:
    total = reduce(lambda a, b: a + b, all_of_them)
    for field in fields(Usage)[:-1]:
        known = [value for usage in all_of_them if (value := getattr(usage, field.name)) is not None]
        assert getattr(total, field.name) == (sum(known) if known else None)
