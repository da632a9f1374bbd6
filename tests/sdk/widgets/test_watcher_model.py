"""The model of the event watcher, its lines, and its time window, without a widget."""

from dataclasses import replace
from datetime import timedelta

import httpx
import numpy as np
import pandas as pd
import pytest
from client_test_data import SENSOR
from resource_paths import LEVEL, TEMPERATURE
from widget_elements import START, observation

from mirror_sdk import Event, EventKind, MirrorClient
from mirror_sdk.frames import read_parquet
from mirror_sdk.recording import Recording
from mirror_sdk.values import decode
from mirror_sdk.widgets.models import earlier_events
from mirror_sdk.widgets.models.lines import SILENT_RHYTHMS, Point, SeriesKey, after_silence, thinned, within
from mirror_sdk.widgets.models.model import run_now
from mirror_sdk.widgets.models.time_window import Interval, TimeWindow
from mirror_sdk.widgets.models.watcher_model import (
    MAX_ROWS,
    SERIES_CHOSEN,
    SERIES_LISTED,
    SERIES_PLOTTED,
    WatcherModel,
    series_text,
)


def reject(request):
    raise httpx.ConnectError("nobody there", request=request)


NAME = "Temperature · Sensor Value"
POINTS = 300
NOWHERE = MirrorClient("http://nowhere.localhost", "key", transport=httpx.MockTransport(reject))


def gap(first=None, last=None):
    return Event(kind=EventKind.GAP, received_at=START, first_seq=first, seq=last)


def loaded(client, **options):
    model = watcher(client, **options)
    model.load()
    return model


def watcher(client=None, **options):
    # No response: these tests do not depend on the client.
    return WatcherModel(client or NOWHERE, **({} if client else {"run": lambda *_: None}) | options)


def values(model):
    return [row["value"] for row in model.rows]


def joins(line):
    return [point.is_connected for point in line.points]


def test_a_thousand_events_a_second_keep_a_bounded_number_of_rows_and_points(seconds):
    model = watcher(max_events=2000, clock=seconds)
    for number in range(6000):
        seconds.now = 1000 + number / 1000
        model.receive([observation(number, at=START + timedelta(milliseconds=number))])
    assert model.rate == pytest.approx(1000)
    seconds.now += 20
    assert model.rate == 0
    assert (model.total, len(model.frame), len(model.rows)) == (6000, 2000, MAX_ROWS)
    assert values(model)[0] == "5999"
    (line,) = model.series
    assert len(thinned(line.points, POINTS)) <= POINTS


def test_losses_are_counted_and_displayed_until_cleared():
    model = watcher()
    assert "no gaps" in model.counts_text
    model.receive([gap(5, 9), observation(10)])
    assert (model.gaps, model.lost) == (1, 5)
    assert "1 gap, 5 lost" in model.counts_text
    assert values(model) == ["10", "lost: 5 to 9"]
    assert model.rows[1]["tones"] == {"event": "bad", "value": "bad"}
    model.receive([gap()])
    model.note_overrun(7)
    assert "2 gaps, at least 5 lost" in model.counts_text
    assert list(model.frame["event"]) == ["gap", "observation", "gap", "gap"]
    assert "7 arrived too fast and were dropped" in model.counts_text
    model.clear()
    assert (model.rows, model.series, model.total, model.gaps, model.overrun, len(model.frame)) == ([], [], 0, 0, 0, 0)


def test_pause_freezes_the_view_and_loses_no_event():
    model = watcher()
    model.receive([observation(1)])
    model.pause()
    model.receive([observation(2), observation(3)])
    assert values(model) == ["1"]
    assert model.series[0].points[-1].number == 1
    assert "paused: 2 new" in model.counts_text
    assert len(model.frame) == 3
    model.resume()
    assert values(model) == ["3", "2", "1"]
    # While the watcher is paused, the table has all stored rows.
    model.receive(map(observation, range(3 * MAX_ROWS)))
    assert len(model.rows) == MAX_ROWS
    assert "the table shows the newest 500" in model.counts_text
    model.pause()
    assert "the table" not in model.counts_text
    model.receive([observation(9999)])
    assert values(model) == [*(f"{number}" for number in reversed(range(3 * MAX_ROWS))), "3", "2", "1"]
    model.resume()
    assert (len(model.rows), values(model)[0]) == (MAX_ROWS, "9999")


def test_a_row_has_both_clocks_and_keeps_its_number():
    model = watcher(max_events=2)
    later = START + timedelta(seconds=3)
    model.receive([replace(observation(1), received_at=later)])
    assert [(row["number"], row["changed_at"], row["received_at"]) for row in model.rows] == [(1, START, later)]
    model.receive([observation(2), observation(3)])
    assert [(row["key"], row["number"]) for row in model.rows] == [("3", 3), ("2", 2)]


def test_devices_are_chosen_by_name_or_id_and_paths_by_pattern(client, simulator, device_id):
    model = loaded(client, devices=["sensor-1", "d2"], paths=["/3303/*"])
    model.receive(
        [observation(1, device_id), observation(2, "d2"), observation(3, "d3"), observation(4, "d2", "/3/0/0")]
    )
    assert values(model) == ["2", "1"]
    assert model.rows[1]["device"] == "sensor-1"
    model.choose([], ["/3303/*"])
    model.receive([observation(3, "d3")])
    assert values(model)[0] == "3"


def test_a_selection_filters_displayed_and_stored_events():
    model = watcher()
    model.receive([observation(1, "d1"), observation(2, "d2"), observation(3, "d2", "/3304/0/5700")])
    model.pause()
    model.choose(["d2"], [])
    assert values(model) == ["3", "2"]
    model.plot([SeriesKey("d2", TEMPERATURE)])
    model.choose(["d2"], ["/3304/*"])
    assert values(model) == ["3"]
    assert [line.key.path for line in model.series] == ["/3304/0/5700"]
    assert model.frame["value_num"].tolist() == [3]
    model.choose([], [])
    assert values(model) == ["3", "2", "1"]


def test_unknown_device_is_a_notice_until_it_registers(client, simulator, device_id):
    model = watcher(client, devices=["sensor-1", "sensro-2"])
    assert model.notices.texts == []
    model.load()
    assert model.notices.texts == [
        "No device has this name or id: sensro-2 (similar: sensor-1). It is shown once it registers."
    ]
    model.choose(["sensor-1"], [])
    assert model.notices.texts == []
    model.choose(["sensro-2"], [])
    assert "sensro-2" in model.notices.texts[0]
    events = client.events(limit=1, timeout=60)
    other = simulator.add_device("sensro-2")
    model.receive(events)
    assert model.notices.texts == []
    assert model.rows[0]["device_id"] == other


def test_invalid_choice_is_an_error():
    with pytest.raises(TypeError, match="paths takes a list"):
        watcher(paths=TEMPERATURE)
    with pytest.raises(TypeError, match="devices takes a list"):
        watcher(devices="sensor-1")
    with pytest.raises(ValueError, match=r"'\*' is allowed only at the end"):
        watcher(paths=["/*/0"])


def test_the_lines_are_those_chosen_or_the_first_that_bring_numbers():
    model = watcher()
    text = observation(1, path="/3/0/0")
    model.receive([text, *(observation(n, f"d{n}") for n in range(9))])
    assert [line.name for line in model.series] == [f"d{n} {NAME}" for n in range(SERIES_PLOTTED)]
    model.plot([SeriesKey("d8", TEMPERATURE)])
    assert [line.points[0].number for line in model.series] == [8]
    # If there are too many lines, those chosen last are drawn.
    model.plot([])
    model.receive(observation(n, f"d{n}") for n in range(9, SERIES_CHOSEN + 1))
    texts = [row["key"] for row in model.series_rows if row["number"] is not None]
    model.plot_texts(texts[:SERIES_CHOSEN])
    model.plot_texts([*texts[:SERIES_CHOSEN], texts[SERIES_CHOSEN]])
    assert [key.device_id for key in model.drawn] == [f"d{n}" for n in range(1, SERIES_CHOSEN + 1)]
    # The list of lines is limited.
    model.receive(observation(n, f"d{n}") for n in range(3 * SERIES_LISTED))
    assert len(model.series_rows) == SERIES_LISTED


def test_a_row_of_the_table_has_its_line_stand_out():
    model = watcher()
    model.receive([observation(n, f"d{n}") for n in range(9)])
    rows = {row["device_id"]: row["key"] for row in model.rows}
    model.select_row(rows["d2"])
    assert model.selected == SeriesKey("d2", TEMPERATURE)
    assert len(model.drawn) == SERIES_PLOTTED
    model.select_row(rows["d8"])
    assert len(model.drawn) == SERIES_PLOTTED + 1
    assert model.drawn[-1] == model.selected == SeriesKey("d8", TEMPERATURE)
    model.receive([Event(kind=EventKind.REGISTRATION, received_at=START, device_id="d2", seq=99)])
    model.select_row(model.rows[0]["key"])
    assert model.selected is None
    model.select_row(rows["d8"])
    model.clear()
    assert (model.plotted, model.selected) == ((), None)


def test_the_unit_is_the_one_the_device_names_else_the_declared_one(client, simulator):
    station = simulator.add_device("station", [SENSOR, {"path": "/3303/0/5701", "value": "Cel"}])
    client.read_value(station, "/3303/0/5701")
    client.read_value(station, TEMPERATURE)
    model = watcher(client)
    level = replace(observation(7, station, LEVEL), unit="%")
    model.receive([observation(7, station), level, observation(8, "d9")])
    panels = [("Cel", "Temperature °C"), ("%", "Light Control %"), ("", "Temperature · Sensor Value")]
    assert [(line.unit, line.panel) for line in model.series] == panels
    assert values(model) == ["8", "7 %", "7 °C"]
    assert [row["unit"] for row in model.series_rows] == ["°C", "%", ""]


def test_a_value_has_no_unit_where_only_a_later_one_is_known():
    model = watcher()
    later = START + timedelta(minutes=1)
    named = replace(observation(0, path="/3303/0/5701", at=later), value=decode(b"Far", "text/plain", "/3303/0/5701"))
    model.receive([observation(20), named, observation(70, at=later)])
    assert [row["value"] for row in model.rows if "5700" in row["path"]] == ["70 Far", "20"]


def test_paths_distinguish_two_lines_of_one_device_and_label():
    model = watcher()
    model.receive([observation(1, "d1"), observation(2, "d1", path="/3303/1/5700"), observation(3, "d2")])
    assert [row["name"] for row in model.series_rows] == [
        "d1 Temperature /3303/0/5700",
        "d1 Temperature /3303/1/5700",
        "d2 Temperature",
    ]
    assert [line.name for line in model.series][1:] == [f"d1 {NAME} /3303/1/5700", f"d2 {NAME}"]
    assert [series_text(key) for key in model.drawn] == [row["key"] for row in model.series_rows]


def test_saved_events_are_read_back(tmp_path, monkeypatch):
    model = watcher()
    model.receive([observation(1), gap(2, 3)])
    file = model.save(tmp_path / "events.parquet")
    pd.testing.assert_frame_equal(read_parquet(file), model.frame)
    with pytest.raises(FileExistsError):
        model.save(file)
    model.receive([observation(4)])
    model.save(file, overwrite=True)
    assert len(read_parquet(file)) == 3
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(ValueError, match="enter one such as"):
        model.save("")

    def full(*_):
        raise OSError("the disk is full")

    # A file that could not be written is removed.
    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    before = file.read_bytes()
    for target in (file, tmp_path / "other.parquet"):
        with pytest.raises(OSError, match="disk is full"):
            model.save(target, overwrite=target == file)
    assert [(one, one.read_bytes()) for one in tmp_path.iterdir()] == [(file, before)]


# Earlier events


@pytest.fixture
def sensor(client, simulator):
    """A device whose temperature is reported after the start of the client's log."""
    client.devices.list()
    device_id = simulator.add_device("sensor-9", [SENSOR | {"value": "20"}])
    client.subscribe(device_id, TEMPERATURE)
    next(client.events(after=0, timeout=60, paths=[TEMPERATURE]))
    return device_id


def report(simulator, device_id, *numbers):
    for number in numbers:
        simulator.set_value(device_id, TEMPERATURE, number)


def test_log_and_live_events_join_without_a_hole_or_a_duplicate(client, simulator, sensor, later):
    report(simulator, sensor, 21, 22)
    model = WatcherModel(client, [sensor], [TEMPERATURE], later)
    model.load()
    later.make()
    live = client.events(timeout=60, limit=3)
    report(simulator, sensor, 23)
    model.receive([next(live)])
    report(simulator, sensor, 24)
    assert "reading earlier events" in model.counts_text
    later.make_all()
    assert values(model) == ["24", "23", "22", "21", "20"]
    model.receive([next(live)])
    assert values(model)[0] == "24"
    report(simulator, sensor, 25)
    model.receive([next(live)])
    assert values(model) == ["25", "24", "23", "22", "21", "20"]
    assert (model.total, model.before) == (6, 4)
    assert "6 events, 4 of them from before · no gaps" in model.counts_text


def test_the_log_is_read_once_live_events_come(client, sensor):
    order = []
    run = lambda call, then, failed: then(call())  # noqa: E731
    model = WatcherModel(client, None, None, run, await_live=lambda: order.append(client.events(timeout=0).position))
    model.load()
    assert len(order) == 1
    assert max(event.seq for event in model.events) == order[0]


def test_a_wider_selection_restores_events_from_the_log(client, simulator, sensor, device_id):
    report(simulator, sensor, 21)
    model = loaded(client, devices=[device_id], paths=["/3303/*"])
    assert model.rows == []
    model.choose([], ["/3303/*"])
    assert values(model) == ["21", "20"]
    model.choose(["sensor-9"], [])
    assert len(values(model)) == 3
    assert len(model.frame) == 3
    # Cleared events do not come back.
    model.clear()
    report(simulator, sensor, 22)
    model.choose([], ["/3303/*"])
    assert values(model) == ["22"]


def test_entries_that_the_log_dropped_are_no_loss(client, simulator, mirror, sensor):
    report(simulator, sensor, 21)
    simulator.advance(timedelta(days=3))
    report(simulator, sensor, 22)
    model = loaded(client, paths=[TEMPERATURE])
    assert values(model)[0] == "22"
    assert "21" not in values(model)
    assert model.gaps == 0


def test_number_of_log_entries_that_are_read_is_bounded(client, simulator, sensor, monkeypatch):
    monkeypatch.setattr(earlier_events, "ENTRIES_READ", 2)
    report(simulator, sensor, 21, 22, 23)
    model = loaded(client)
    assert values(model) == ["23", "22"]


def test_a_recording_is_displayed_before_the_log(client, simulator, sensor, tmp_path):
    with client.record(tmp_path / "run.parquet", paths=[TEMPERATURE]) as recorder:
        report(simulator, sensor, 21, 22)
    report(simulator, sensor, 23)
    model = loaded(client, paths=[TEMPERATURE], recording=recorder.recording)
    assert values(model) == ["23", "22", "21", "20"]
    simulator.advance(timedelta(days=3))
    report(simulator, sensor, 24)
    late = loaded(client, paths=[TEMPERATURE], recording=Recording(tmp_path / "run.parquet"))
    assert [value for value in values(late) if value in {"21", "22", "23", "24"}] == ["24", "22", "21"]
    assert "lost: an unknown number" in values(late)
    assert not all(joins(late.series[0]))
    late.clear()
    late.choose([], [])
    assert values(late) == []


# Lines


def test_a_line_is_broken_where_something_was_lost_and_where_its_device_left():
    model = watcher()
    left = Event(kind=EventKind.DEREGISTRATION, received_at=START, device_id="d1")
    model.receive([observation(1, "d1"), observation(2, "d2"), left, observation(3, "d1"), observation(4, "d2")])
    assert [joins(line) for line in model.series] == [[True, False], [True, True]]
    model.receive([gap(5, 6), observation(7, "d1"), observation(8, "d2")])
    assert [joins(line) for line in model.series] == [[True, False, False], [True, True, False]]
    model.note_overrun(3)
    model.receive([observation(9, "d1")])
    assert joins(model.series[0]) == [True, False, False, False]


def test_a_line_is_broken_where_it_was_silent_for_much_longer_than_usual():
    seconds = [0, 10, 20, 30, 40, 50, 60 + 10 * SILENT_RHYTHMS, 70 + 10 * SILENT_RHYTHMS]
    assert after_silence(1000.0 * np.array(seconds)).tolist() == [False] * 6 + [True, False]
    assert not after_silence(np.array([0.0, 1.0, 100.0])).any(), "few intervals define no rhythm"
    assert not after_silence(np.zeros(20)).any(), "all of them came at once"


def test_a_set_point_that_was_not_changed_for_long_has_no_break():
    model = watcher()
    times = [START + timedelta(seconds=second) for second in (*range(10), 3600)]
    for path, breaks in (("/3308/0/5900", 0), (TEMPERATURE, 1)):
        model.receive([observation(number, "d1", path=path, at=at) for number, at in enumerate(times)])
        (line,) = [line for line in model.series if line.key.path == path]
        assert joins(line).count(False) == breaks


def line_of(count, peak=None, broken=()):
    return [Point(START + timedelta(seconds=at), 100.0 if at == peak else 0.0, at not in broken) for at in range(count)]


def test_thinning_keeps_peaks_ends_and_breaks():
    points = line_of(10_000, 777, {5000})
    retained = thinned(points, POINTS)
    assert len(retained) <= POINTS
    assert max(point.number for point in retained) == 100
    assert (retained[0], retained[-1]) == (points[0], points[-1])
    assert [point.at for point in retained] == sorted(point.at for point in retained)
    (broken,) = [point for point in retained if not point.is_connected]
    assert abs((broken.at - START).total_seconds() - 5000) < 100
    assert thinned(points[:POINTS], POINTS) == points[:POINTS]


def test_an_interval_of_a_line_leads_on_to_its_neighbors():
    points = line_of(10)
    at = [point.at for point in points]
    assert within(points, at[3], at[5]) == points[2:7]
    assert within(points, at[0], at[9]) == points
    assert within(points, at[3] + timedelta(seconds=0.2), at[3] + timedelta(seconds=0.4)) == points[3:5]
    assert within(points, at[9] + timedelta(seconds=5), at[9] + timedelta(seconds=6)) == points[9:]


# The time window


def test_a_window_follows_the_newest_or_stays():
    window = TimeWindow()
    hours = [START + timedelta(hours=number) for number in range(4)]
    assert window.of(Interval(hours[0], hours[3])) == (hours[0], hours[3])
    window.follow(timedelta(hours=1))
    assert window.of(Interval(hours[0], hours[3])) == (hours[2], hours[3])
    assert window.of(Interval(hours[3] - timedelta(minutes=1), hours[3])).begin == hours[3] - timedelta(minutes=1)
    window.staying = Interval(hours[0], hours[1])
    assert window.of(Interval(hours[0], hours[3])) == (hours[0], hours[1])
    window.follow(None)
    assert window.of(Interval(hours[3], hours[3])).length > timedelta(0)


def test_an_interval_is_zoomed_around_its_middle_and_shifted_by_its_length():
    interval = Interval(START, START + timedelta(hours=4))
    assert interval.zoomed(0.5) == (START + timedelta(hours=1), START + timedelta(hours=3))
    assert interval.shifted(-0.5) == (START - timedelta(hours=2), START + timedelta(hours=2))
    for _ in range(100):
        interval = interval.zoomed(2)
    for _ in range(200):
        interval = interval.zoomed(0.5)
    assert interval.length > timedelta(0)


def test_the_model_stays_where_it_was_moved_and_follows_again():
    model = watcher()
    model.receive([observation(1), observation(2, at=START + timedelta(hours=2))])
    assert model.interval_of(model.chart) == (START, START + timedelta(hours=2))
    model.follow(timedelta(minutes=5))
    assert model.interval_of(model.chart).begin == START + timedelta(hours=2, minutes=-5)
    model.stay(Interval(START, START + timedelta(hours=1)))
    model.receive([observation(3, at=START + timedelta(hours=3))])
    assert model.interval_of(model.chart) == (START, START + timedelta(hours=1))
    model.stay(None)
    assert model.interval_of(model.chart).end == START + timedelta(hours=3)
    model.clear()
    assert model.interval_of(model.chart) is None


def test_failed_reads_of_names_and_earlier_events_are_repeated(client, simulator, device_id, seconds):
    client.subscribe(device_id, TEMPERATURE)
    simulator.set_value(device_id, TEMPERATURE, 22.5)
    attempts = []

    def fail(_call, _then, failed):
        attempts.append(seconds.now)
        failed(ConnectionError("the service is away"))

    model = WatcherModel(client, run=fail, clock=seconds)
    model.load()
    assert model.notices.texts == [
        "Reading the earlier events: the service is away",
        "Reading the names of devices: the service is away",
    ]
    seconds.now += 5
    model.tick()
    assert len(attempts) == 2
    model.run = run_now
    seconds.now += 5
    model.tick()
    assert model.notices.texts == []
    assert TEMPERATURE in {event.path for event in model.events}
    assert model.names
