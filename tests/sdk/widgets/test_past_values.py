"""Earlier values in fleet tables and explorers: from the service's history, or else from the notification log."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk.widgets.models import past_values
from mirror_sdk.widgets.models.past_values import PastValues, read_past_values
from mirror_sdk.widgets.models.resource_past import ResourcePast, StateSpan
from mirror_sdk.widgets.models.sparklines import Sparklines

DAY = timedelta(days=1)
HALF_HOUR_MS = 1_800_000


def report(simulator, client, device_id):
    """Report two numbers and two booleans, ten minutes apart."""
    for path in (TEMPERATURE, SWITCH):
        client.subscribe(device_id, path)
    for number in (22.5, 23.5):
        simulator.advance(600)
        simulator.set_value(device_id, TEMPERATURE, number)
        simulator.set_value(device_id, SWITCH, number > 23)


def rows(past):
    numbers = [None if np.isnan(number) else number for number in past.numbers]
    return set(zip(past.device_ids, past.paths, numbers, past.texts, strict=True))


def expected(device_id):
    return {
        (device_id, TEMPERATURE, 22.5, None),
        (device_id, TEMPERATURE, 23.5, None),
        (device_id, SWITCH, 0.0, "false"),
        (device_id, SWITCH, 1.0, "true"),
    }


@pytest.mark.keeps_history
def test_past_comes_from_the_history_of_the_service_also_if_it_is_shorter(
    client, plain, simulator, device_id, transport
):
    # Another application receives the values.
    report(simulator, plain, device_id)
    simulator.advance(1)
    end = datetime(2026, 1, 5, 8, 20, 1, tzinfo=UTC)
    past = read_past_values(client, [device_id], [], end, DAY)
    assert past.is_history
    assert expected(device_id) <= rows(past)
    assert {path for _, path, *_ in rows(read_past_values(client, (), [TEMPERATURE], end, DAY))} == {TEMPERATURE}


@pytest.mark.keeps_history
def test_newest_part_of_a_long_past_is_read(client, plain, simulator, device_id, monkeypatch):
    report(simulator, plain, device_id)
    simulator.advance(1)
    monkeypatch.setattr(past_values, "MOST_ROWS", 2)
    end = datetime(2026, 1, 5, 8, 20, 1, tzinfo=UTC)
    past = read_past_values(client, (), [TEMPERATURE], end, timedelta(minutes=20))
    assert past.numbers.tolist() == [23.5]
    assert past.begin == end - timedelta(minutes=5)


def test_past_comes_from_the_log_if_the_service_keeps_no_history(client, plain, simulator, device_id):
    report(simulator, client, device_id)
    end = datetime(2026, 1, 5, 8, 20, 1, tzinfo=UTC)
    past = read_past_values(client, (), [], end, DAY)
    assert not past.is_history
    assert expected(device_id) <= rows(past)
    assert rows(read_past_values(client, (), [TEMPERATURE], end, timedelta(minutes=1))) == {
        (device_id, TEMPERATURE, 23.5, None)
    }
    assert rows(read_past_values(client, ["0" * 32], [], end, DAY)) == set()


def earlier_values(*values, key="d"):
    at, numbers, texts = zip(*values, strict=True)
    keys = [key] * len(values)
    return PastValues(keys, keys, np.array(at), np.array(numbers, "float64"), texts, datetime.now(UTC), is_history=True)


def test_sparkline_has_the_mean_of_each_half_hour():
    now = 100 * HALF_HOUR_MS
    lines = Sparklines(now)
    lines.set_past(
        earlier_values((now - 1, 1.0, None), (now, 2.0, None), (now + 5, 5.0, None), (0, 9.0, None)), ["d"] * 4
    )
    assert lines.line("d") == {"at": [0, 46, 47], "values": [None, 1.0, 3.5]}
    assert lines.line("other") is None
    # The same value is reported again by a snapshot.
    lines.add("d", now + 5, 5.0)
    lines.add("d", now + 6, 11.0)
    lines.add("other", now, 1 / 3)
    assert lines.line("d") == {"at": [0, 46, 47], "values": [None, 1.0, 6.0]}
    assert lines.line("other") == {"at": [0, 47], "values": [None, 0.33333]}
    lines.advance(now + 40 * HALF_HOUR_MS)
    assert lines.line("d") == {"at": [0, 6, 7, 47], "values": [None, 1.0, 6.0, None]}
    # The clock of a device is wrong.
    lines.add("d", now + 99 * HALF_HOUR_MS, 1.0)
    lines.advance(now + 200 * HALF_HOUR_MS)
    assert lines.line("d") is None


def test_sparkline_of_a_switch_has_its_last_states():
    now = 100 * HALF_HOUR_MS
    lines = Sparklines(now)
    early, late = now - 40 * HALF_HOUR_MS, now - 10 * HALF_HOUR_MS
    lines.set_past(earlier_values((early + 2, 1.0, "true"), (early + 1, 0.0, "false"), (late, 0.0, "false")), ["s"] * 3)
    assert lines.line("s", is_state=True) == {"at": [0, 7, 37, 37, 47], "values": [None, 1.0, 1.0, 0.0, 0.0]}
    lines.add("s", now, 1.0)
    assert lines.line("s", is_state=True)["values"] == [None, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]


def test_past_of_a_resource_is_a_line_or_states():
    past = ResourcePast()
    past.set_past(earlier_values((2, 1.0, None), (1, 5.0, None), key="n"))
    past.add("n", 4, 7.0, None)
    past.add("n", 4, 8.0, None)
    past.add("n", 3, 6.0, None)
    times, numbers = past.line("n")
    assert (times.tolist(), numbers.tolist()) == ([1, 2, 3, 4], [5, 1, 6, 7])
    assert past.states("n") == []
    past.set_past(earlier_values((1, 0.0, "false"), (2, 0.0, "false"), (3, 1.0, "true"), key="s"))
    assert past.line("s") is None
    assert past.states("s") == [StateSpan(1, 3, "false"), StateSpan(3, None, "true")]
    assert (past.line("none"), past.states("none")) == (None, [])
