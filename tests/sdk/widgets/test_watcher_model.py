"""The event watcher's model alone, and its plot."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import httpx
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_sdk import Event, EventKind, MirrorClient
from mirror_sdk.frames import read_parquet
from mirror_sdk.values import decode
from mirror_sdk.widgets.models.watcher_model import ROWS_SHOWN, SERIES_LISTED, Point, Series, WatcherModel
from mirror_sdk.widgets.plot import POINTS_DRAWN, plot, thinned, ticks

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
PATH = "/3303/0/5700"


def refuse(request):
    raise httpx.ConnectError("nobody there", request=request)


NOWHERE = MirrorClient("http://nowhere.localhost", "key", transport=httpx.MockTransport(refuse))


def observation(number, device="d1", path=PATH, at=START):
    return Event(
        kind=EventKind.OBSERVATION,
        received_at=at,
        seq=number,
        device_id=device,
        path=path,
        value=decode(str(number).encode(), "text/plain", path),
        changed_at=at,
    )


def gap(first=None, last=None):
    return Event(kind=EventKind.GAP, received_at=START, first_seq=first, seq=last)


def watcher(client=None, **options):
    return WatcherModel(client or NOWHERE, **options)


def values(model):
    return [row.value for row in model.rows]


def test_a_thousand_events_a_second_keep_a_bounded_number_of_rows_and_points(seconds):
    model = watcher(events_kept=2000, clock=seconds)
    for number in range(20_000):
        seconds.now = 1000 + number / 1000
        model.take([observation(number, at=START + timedelta(milliseconds=number))])
    assert model.rate == pytest.approx(1000)
    assert (model.total, model.forgotten, len(model.frame), len(model.rows)) == (20_000, 18_000, 2000, ROWS_SHOWN)
    assert values(model)[0] == "19999.0"
    (line,) = model.series
    assert len(thinned(line.points)) <= POINTS_DRAWN
    assert len(plot(model.series)) < 20_000


def test_the_rate_falls_to_nothing_when_nothing_comes(seconds):
    model = watcher(clock=seconds)
    model.take([observation(1)] * 50)
    assert model.rate == 50
    seconds.now += 5
    assert model.rate == pytest.approx(50 / 6)
    seconds.now += 10
    assert model.rate == 0


def test_losses_are_counted_and_told():
    model = watcher()
    assert "no gaps" in model.counts_text
    model.take([gap(5, 9), observation(10)])
    assert (model.gaps, model.lost) == (1, 5)
    assert "1 gap, 5 lost" in model.counts_text
    assert values(model) == ["10.0", "lost: 5 to 9"]
    model.take([gap()], overrun=7)
    assert "2 gaps, at least 5 lost" in model.counts_text
    assert "7 came too fast and are missing here" in model.counts_text


def test_pausing_holds_still_and_loses_nothing():
    model = watcher()
    model.take([observation(1)])
    model.pause()
    model.take([observation(2), observation(3)])
    assert values(model) == ["1.0"]
    assert model.series[0].points[-1].number == 1
    assert "paused: 2 new" in model.counts_text
    assert len(model.frame) == 3
    model.resume()
    assert values(model) == ["3.0", "2.0", "1.0"]


def test_without_following_the_table_stays_and_the_rest_goes_on():
    model = watcher()
    model.take(map(observation, range(100)))
    model.follow(False)
    stood = values(model)
    model.take(map(observation, range(100, 110)))
    assert values(model) == stood
    assert model.series[0].points[-1].number == 109
    model.move(5)
    assert values(model)[0] == "94.0"
    model.move(-1000)
    assert values(model)[0] == "109.0"
    model.follow(True)
    model.take([observation(110)])
    assert values(model)[0] == "110.0"


def test_a_table_that_stays_shows_the_oldest_when_its_place_is_gone():
    model = watcher(events_kept=30)
    model.take(map(observation, range(30)))
    model.follow(False)
    model.take(map(observation, range(30, 500)))
    assert values(model)[-1] == "470.0"
    assert len(model.rows) == ROWS_SHOWN


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(0, 40)),
            st.tuples(st.just("move"), st.integers(-50, 50)),
            st.tuples(st.just("follow"), st.booleans()),
            st.tuples(st.sampled_from(["pause", "resume", "clear"])),
        ),
        max_size=25,
    )
)
def test_whatever_is_done_the_rows_are_a_full_window_without_holes(steps):
    model, number = watcher(events_kept=50), 0
    for name, *arguments in steps:
        if name == "take":
            model.take(map(observation, range(number, number + arguments[0])))
            number += arguments[0]
        else:
            getattr(model, name)(*arguments)
        shown = [float(text) for text in values(model)]
        assert shown == [shown[0] - step for step in range(len(shown))]
        assert len(shown) == min(ROWS_SHOWN, len(model._shown))


def test_clearing_forgets_events_counts_and_lines():
    model = watcher()
    model.take([observation(1), gap(1, 2)], overrun=3)
    model.clear()
    assert (model.rows, model.series, model.total, model.gaps, model.overrun) == ([], [], 0, 0, 0)
    assert len(model.frame) == 0


def test_devices_are_chosen_by_name_or_id_and_paths_by_pattern(client, bench, device_id):
    model = watcher(client, devices=["sensor-1", "d2"], paths=["/3303/*"])
    model.load_names()
    model.take([observation(1, device_id), observation(2, "d2"), observation(3, "d3"), observation(4, "d2", "/3/0/0")])
    assert values(model) == ["2.0", "1.0"]
    assert model.rows[1].device == "sensor-1"
    model.choose([], [])
    model.take([observation(3, "d3")])
    assert values(model)[0] == "3.0"


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(TypeError, match="paths takes a list"):
        watcher(paths=PATH)
    with pytest.raises(TypeError, match="devices takes a list"):
        watcher(devices="sensor-1")
    with pytest.raises(ValueError, match=r"'\*' may stand only at the end"):
        watcher(paths=["/*/0"])


def test_the_lines_are_those_chosen_or_the_first_that_bring_numbers():
    model = watcher()
    text = observation(1, path="/3/0/0")
    model.take([text, *(observation(n, f"d{n}") for n in range(6))])
    assert [line.name for line in model.series] == [f"d{n} Temperature · Sensor Value" for n in range(4)]
    keys = dict(model.series_listed)
    model.plot([keys["d5 Temperature · Sensor Value"]])
    assert [line.points[0].number for line in model.series] == [5]


def test_paths_tell_two_lines_of_one_device_and_label_apart():
    model = watcher()
    model.take([observation(1, "d1"), observation(2, "d1", path="/3303/1/5700"), observation(3, "d2")])
    assert [name for name, _ in model.series_listed] == [
        "d1 Temperature · Sensor Value /3303/0/5700",
        "d1 Temperature · Sensor Value /3303/1/5700",
        "d2 Temperature · Sensor Value",
    ]
    assert [line.name for line in model.series] == [name for name, _ in model.series_listed]


def test_the_series_that_can_be_plotted_are_bounded():
    model = watcher()
    model.take(observation(n, f"d{n}") for n in range(3 * SERIES_LISTED))
    assert len(model.series_listed) == SERIES_LISTED


def test_saved_events_are_read_back(tmp_path):
    model = watcher()
    model.take([observation(1), gap(2, 3)])
    file = model.save(tmp_path / "events.parquet")
    pd.testing.assert_frame_equal(read_parquet(file), model.frame)
    with pytest.raises(FileExistsError):
        model.save(file)
    with pytest.raises(ValueError, match="give one such as"):
        model.save("")


def test_a_file_that_could_not_be_written_is_not_left_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    with pytest.raises(OSError, match="disk is full"):
        watcher().save(tmp_path / "events.parquet")
    assert list(tmp_path.iterdir()) == []


def test_names_that_cannot_be_read_are_told(monkeypatch):
    model = watcher()
    monkeypatch.setattr(NOWHERE._sender, "_sleep", lambda _: None)
    model.load_names()
    assert model.notices.texts[0].startswith("Reading the names of devices: ")


numbers = st.floats(-1e100, 1e100) | st.integers(-3, 3).map(float) | st.floats(-1e-300, 1e-300)


@given(st.lists(st.lists(numbers, max_size=50), max_size=5), st.text(), st.text())
def test_a_plot_is_well_formed_whatever_is_drawn(lines, name, unit):
    series = [
        Series(name, unit, [Point(START + timedelta(seconds=at), number) for at, number in enumerate(line)])
        for line in lines
    ]
    drawn = plot(series)
    printable = "".join(char for char in drawn if char.isprintable())
    assert "nan" not in ET.fromstring(f"<div>{printable}</div>").findtext("svg", "")


def test_markup_in_a_name_or_unit_is_text_in_a_plot():
    drawn = plot([Series("<img src=x>", '"><script>', [Point(START, 1.0)])])
    assert "<img" not in drawn
    assert "<script" not in drawn


def test_thinning_keeps_the_peaks():
    points = [Point(START + timedelta(seconds=at), 100.0 if at == 777 else 0.0) for at in range(10_000)]
    kept = thinned(points)
    assert len(kept) <= POINTS_DRAWN
    assert max(point.number for point in kept) == 100
    assert kept == sorted(kept)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_and_within_the_range(low, size):
    marks = ticks(low, low + size)
    assert 1 <= len(marks) <= 6
    assert all(low - size * 1e-6 <= mark <= low + size * (1 + 1e-6) for mark in marks)
