"""How long a client waits after failures."""

import random

from hypothesis import given
from hypothesis import strategies as st

from mirror_sdk._service.backoff import FIRST_SECONDS, LONGEST_SECONDS, Backoff


def test_delays_double_up_to_the_longest():
    backoff = Backoff(chance=lambda: 1.0)
    assert [backoff.failed() for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_success_begins_anew():
    backoff = Backoff(chance=lambda: 1.0)
    for _ in range(5):
        backoff.failed()
    backoff.succeeded()
    assert backoff.failed() == FIRST_SECONDS


def test_chance_takes_up_to_half_of_a_delay():
    assert Backoff(chance=lambda: 0.0).failed() == FIRST_SECONDS / 2


def test_a_delay_is_never_shorter_than_the_service_asked_for():
    assert Backoff().failed(retry_after_seconds=90.0) == 90.0


@given(failures=st.integers(1, 3000), chance=st.floats(0, 1))
def test_every_delay_is_positive_and_bounded(failures, chance):
    backoff = Backoff(chance=lambda: chance)
    delays = [backoff.failed() for _ in range(failures)]
    assert all(0 < delay <= LONGEST_SECONDS for delay in delays)


def test_it_takes_no_number_of_a_program_that_seeded_its_own(plain):
    """Nor does a server in the program, which names its requests."""
    random.seed(7)
    expected = random.getstate()
    assert Backoff().failed() > 0
    assert plain.is_healthy()
    assert random.getstate() == expected
