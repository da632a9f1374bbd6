"""The analysis of the service's history, of a recording and of events gives the same results."""

from datetime import timedelta

import pandas as pd
import pytest
from client_test_data import LAMP, SENSOR
from resource_paths import SWITCH, TEMPERATURE
from thread_waits import until

from mirror_server.devices.interface import Content, Observation

pytestmark = [pytest.mark.keeps_history, pytest.mark.usefixtures("last_poll_soon")]

STATISTICS = ["time_weighted_mean", "last", "min", "max", "count"]
QUESTIONS = {
    "resample": lambda frame, span: frame.mirror.resample("1min", STATISTICS, paths=[TEMPERATURE], **span),
    "lights": lambda frame, span: frame.mirror.resample("5min", "duration", paths=[SWITCH], **span),
    "durations": lambda frame, span: frame.mirror.durations(TEMPERATURE, above=22, per_interval=True, **span),
    "availability": lambda frame, span: frame.mirror.availability(per_interval=True, **span),
    "rates": lambda frame, span: frame.mirror.rates(TEMPERATURE, bin="1min", **span),
    "align": lambda frame, span: frame.mirror.align([SWITCH, TEMPERATURE], on="1min", **span),
    "gaps": lambda frame, span: frame.mirror.gaps(**span),
    "late_arrivals": lambda frame, span: frame.mirror.late_arrivals(**span).drop(columns=["delay", "received_at"]),
    "unchanged": lambda frame, span: frame.mirror.unchanged("90s", **span),
}


@pytest.fixture
def sources(plain, simulator, folder):
    """Return a quarter of an hour of two devices, by source, with its begin and end."""

    plain.subscriptions.rules.replace([{"resource_path": ["/33*"]}])
    simulator.advance(60)
    position = plain.notifications.events_frame(after=0, timeout=0).attrs["mirror"].get("position", 0)
    with plain.record(folder) as recorder:
        begin = simulator.get_clock()
        hall = simulator.add_device("hall", [SENSOR, LAMP])
        roof = simulator.add_device("roof", [SENSOR, LAMP])
        for minute, value in enumerate([22.0, 22.5, 22.5, 21.0]):
            simulator.advance(60)
            simulator.set_value(hall, TEMPERATURE, value)
            simulator.set_value(roof, SWITCH, minute % 2 == 0)
        simulator.deregister(roof)
        simulator.advance(150)
        simulator.register(roof)
        end = simulator.advance(270)
        # The last poll of the recorder proves that nothing else has arrived.
        until(lambda: recorder.audit().until_at == end)
    frames = {
        "history": plain.history(begin=begin, end=end),
        "history of a recording": recorder.recording.history(begin=begin, end=end),
        "events of a recording": recorder.recording.events(),
        "events": plain.notifications.events_frame(after=position, timeout=0),
    }
    return frames, {"begin": begin, "end": end}


def test_results_are_the_same_for_history_recording_and_events(sources):
    frames, span = sources
    for name, question in QUESTIONS.items():
        expected = question(frames["history"], span)
        assert name == "late_arrivals" or len(expected)
        for where, frame in frames.items():
            pd.testing.assert_frame_equal(question(frame, span), expected, obj=f"{name} of {where}")
    history = frames["history"]
    warm = history.mirror.durations(TEMPERATURE, above=22)
    assert warm["duration"].tolist() == [timedelta(minutes=2), timedelta(0)]
    there = history.mirror.availability()
    assert sorted(there["availability"].round(3)) == [round(1 - 150 / 660, 3), 1.0]
    (silent,) = history.mirror.gaps().to_dict("records")
    assert (silent["reason"], silent["duration"]) == ("deregistration", timedelta(seconds=150))
    # The recording is known up to its end, without end=.
    complete = history.mirror.resample("1min", "count")
    assert complete["bin"].min() == pd.Timestamp(span["begin"])
    assert complete["bin"].max() == pd.Timestamp(span["end"]) - timedelta(minutes=1)


def test_state_at_the_begin_gives_the_same_result_as_the_complete_history(plain, simulator, mirror, folder):
    plain.subscriptions.rules.replace([{"resource_path": [TEMPERATURE]}])
    hall = simulator.add_device("hall", [SENSOR, LAMP])
    first = simulator.advance(60)
    before = ((b"10", first), (b"16", first + timedelta(minutes=5)))

    def late(value, changed_at):
        at = int(changed_at.timestamp() * 1000)
        mirror.services.devices.observed([Observation(hall, TEMPERATURE, Content(value), at)]).result(60)

    with plain.record(folder) as recorder:
        begin = simulator.advance(3600)
        simulator.advance(3600)
        for value, changed_at in before:
            late(value, changed_at)
        late(b"20", begin + timedelta(minutes=30))
        simulator.advance(3600)
        # Repeated like after a registration: changed before the begin, received two hours later.
        for value, changed_at in before:
            late(value, changed_at)
        end = simulator.advance(3600)
        until(lambda: recorder.audit().until_at == end)
    state = plain.as_of(begin, paths=[TEMPERATURE])
    complete, later = (plain.history(paths=[TEMPERATURE], begin=one, end=end) for one in (None, begin))
    for question in (
        lambda frame, **options: frame.mirror.durations(TEMPERATURE, above=15, begin=begin, end=end, **options),
        lambda frame, **options: frame.mirror.resample("30min", "last", begin=begin, end=end, **options),
    ):
        pd.testing.assert_frame_equal(question(later, state=state), question(complete))
    recorded = recorder.recording.as_of(begin, paths=[TEMPERATURE])
    pd.testing.assert_series_equal(recorded["reported_at"], state["reported_at"])
    assert (state["reported_at"] <= begin).all()
