"""The pauses of a client after failures."""

import random

from hypothesis import given
from hypothesis import strategies as st

from mirror_sdk._protocol.backoff import FIRST_SECONDS, LONGEST_SECONDS, Backoff


def test_jitter_reduces_a_delay_by_up_to_half():
    assert Backoff(rng=lambda: 0.0).failed() == FIRST_SECONDS / 2


@given(failures=st.integers(1, 3000), chance=st.floats(0, 1))
def test_every_delay_is_positive_and_bounded(failures, chance):
    backoff = Backoff(rng=lambda: chance)
    delays = [backoff.failed() for _ in range(failures)]
    assert all(0 < delay <= LONGEST_SECONDS for delay in delays)


def test_jitter_does_not_consume_numbers_of_a_seeded_program(plain):
    """A server in the program, which generates request ids, does not consume them either."""
    random.seed(7)
    expected = random.getstate()
    assert Backoff().failed() > 0
    assert plain.service.is_healthy()
    assert random.getstate() == expected
