"""Durations and the clock of the kit."""

from datetime import UTC, datetime, timedelta

import pytest

from mirror_sdk.testing.clock import seconds_of


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("1h", 3600),
        ("1h 30min", 5400),
        ("1h30min", 5400),
        (" 2 d ", 172800),
        ("0.5s", 0.5),
        ("250ms", 0.25),
        (90, 90),
        (1.5, 1.5),
        (timedelta(minutes=2), 120),
    ],
)
def test_a_duration_is_seconds_a_text_or_a_timedelta(duration, seconds):
    assert seconds_of(duration) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "1x", "1 hour", "-1h", "1h,", "1m", "1hs", "1e3s", "٣s", "1h -1s"])
def test_an_invalid_text_is_rejected_with_an_example(text):
    with pytest.raises(ValueError, match="1h 30min"):
        seconds_of(text)


def test_the_clock_stands_still_until_it_is_advanced(mirror, clock):
    began = clock.now()
    assert began == datetime(2026, 1, 5, 8, tzinfo=UTC)
    mirror.client.devices.list()
    assert clock.now() == began
    assert clock.advance("1h") == clock.now() == began + timedelta(hours=1)
    assert clock is mirror.clock


@pytest.mark.parametrize("amount", [-1, timedelta(), float("nan"), timedelta(days=400)])
def test_time_moves_on_only_and_not_too_far(clock, amount):
    with pytest.raises(ValueError, match="advance_seconds"):
        clock.advance(amount)
