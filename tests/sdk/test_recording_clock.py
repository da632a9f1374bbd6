"""The bounds of a recording are times of the service, however wrong the local clock is."""

from datetime import UTC, datetime, timedelta

import pytest
from resource_paths import TEMPERATURE
from thread_waits import until

from mirror_sdk.recording import Recording, file_names
from mirror_sdk.recording.log_spans import LogSpan, is_covered, merge
from mirror_sdk.recording.writer import RecordingWriter
from mirror_sdk.wire.routes import TIME_HEADER

AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


@pytest.fixture
def here(simulator, monkeypatch):
    """The clock of the client, two months ahead of the service."""
    now = simulator.get_clock() + timedelta(days=60)
    monkeypatch.setitem(RecordingWriter.__init__.__kwdefaults__, "now", lambda: now)
    return now


def is_complete(folder, instant):
    return Recording(folder).as_of(instant).attrs["mirror"]["complete"]


def changes_complete(folder, begin, end):
    return Recording(folder).changes(begin, end).attrs["mirror"]["complete"]


@pytest.mark.filterwarnings("ignore::mirror_sdk.GapWarning")
def test_coverage_uses_the_clock_of_the_service(client, simulator, here, observed, folder):
    started_at = simulator.get_clock()
    with client.record(folder):
        observed(1.0)
        ended_at = simulator.advance(60)
    assert set(Recording(folder).events()["received_at"]) == {here}
    audit = Recording(folder).audit()
    assert (audit.from_at, audit.until_at, audit.finalized_until_at) == (started_at, ended_at, ended_at)
    assert Recording(folder).events().attrs["mirror"]["taken_at"].startswith(f"{ended_at:%Y-%m-%dT%H:%M:%S}")
    assert is_complete(folder, started_at)
    assert is_complete(folder, ended_at)
    assert changes_complete(folder, started_at, ended_at)
    for later in (MILLISECOND, timedelta(days=60), timedelta(days=700)):
        assert not is_complete(folder, ended_at + later)
        assert not changes_complete(folder, started_at, ended_at + later)

    # The next recorder reads the missing entries from the log.
    between = observed(2.0)
    with client.record(folder):
        continued_at = observed(3.0)
    assert Recording(folder).audit().from_at == started_at
    assert all(is_complete(folder, instant) for instant in (started_at, ended_at, between, continued_at))

    # Except those that the log has dropped by then.
    inside = observed(4.0)
    simulator.advance(timedelta(hours=25))
    with client.record(folder):
        resumed_at = simulator.get_clock()
        # The state is recorded again when the loss is detected.
        until(lambda: len(file_names.state_numbers(folder)) == 4)
        after_resume = observed(5.0)
    assert not Recording(folder).audit().complete
    assert is_complete(folder, continued_at)
    assert not is_complete(folder, inside)
    assert not is_complete(folder, resumed_at - MILLISECOND)
    assert is_complete(folder, after_resume)
    assert changes_complete(folder, resumed_at, after_resume)
    assert not changes_complete(folder, continued_at, after_resume)


def test_an_empty_fleet_is_covered_up_to_the_last_snapshot(client, simulator, folder):
    with client.record(folder):
        started_at = simulator.get_clock()
        assert is_complete(folder, started_at)
        assert not is_complete(folder, simulator.advance(1))
        client.subscriptions.rules.replace([{"resource_path": [TEMPERATURE]}])
        simulator.advance(60)
        simulator.add_device("late", [{"path": TEMPERATURE, "value": "7.5", "observable": True}])
        later = simulator.advance(1)
    assert is_complete(folder, later)
    state = Recording(folder).as_of(later)
    assert (state["reported_num"].tolist(), state["label"].tolist()) == ([7.5], ["Temperature · Sensor Value"])
    assert len(Recording(folder).as_of(started_at)) == 0
    assert not is_complete(folder, later + MILLISECOND)


def test_without_times_of_the_service_nothing_is_covered(client_over, simulator, device_id, folder):
    def send_the_time_or_not(_, answer):
        if not sends_time:
            answer.headers.pop(TIME_HEADER, None)
        return answer

    sends_time = False
    client = client_over(send_the_time_or_not)
    with client.record(folder):
        started_at = simulator.advance(60)
    audit = Recording(folder).audit()
    assert (audit.complete, audit.from_at, audit.until_at) == (True, None, None)
    assert str(audit).startswith("complete from an unknown time to an unknown time: 0")
    assert not is_complete(folder, started_at)
    # A new service sends it: nothing is missing between its state table and the last poll.
    sends_time = True
    with client.record(folder):
        renewed_at = simulator.advance(60)
        ended_at = simulator.advance(60)
    assert Recording(folder).audit().until_at == ended_at
    assert not is_complete(folder, started_at - MILLISECOND)
    assert is_complete(folder, renewed_at)


def at(minute):
    return AT + timedelta(minutes=minute)


def test_coverage_lies_between_two_snapshots_without_a_loss():
    continued = [LogSpan(0, 0, at(0), at(0)), LogSpan(0, 5, at(0), at(10)), LogSpan(5, 9, at(10), at(20))]
    assert merge(continued) == merge(merge(continued)) == [LogSpan(0, 9, at(0), at(20))]
    assert is_covered(merge(continued), at(0), at(20))
    without_times = [*continued, LogSpan(9, 10, None, None)]
    assert not is_covered(merge(without_times), at(19), at(21))
    lost = [*continued, LogSpan(12, 13, at(30), at(40))]
    assert is_covered(merge(lost), at(30), at(40))
    assert not is_covered(merge(lost), at(20), at(30))
    # An instant that occurs twice is ambiguous.
    set_back = [LogSpan(0, 5, at(0), at(10)), LogSpan(5, 9, at(4), at(20))]
    for begin, end, is_known in ((1, 3, True), (1, 7, False), (4, 7, False), (11, 20, True), (1, 20, False)):
        assert is_covered(set_back, at(begin), at(end)) is is_known
