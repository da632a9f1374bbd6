"""Plots of gaps, availability, late arrivals and unchanged values."""

import sys

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from reference_history import BEGIN, Row, at, frame_of, reports
from resource_paths import HUMIDITY, TEMPERATURE

from mirror_sdk import Condition, InvalidValue


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def labels(axes):
    axes.figure.canvas.draw()
    return [label.get_text() for label in axes.get_yticklabels()]


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def bars(axes):
    """Return the bars: the row of each, and its first and last second."""
    found = []
    for collection in axes.collections:
        for path in collection.get_paths():
            box = path.get_extents()
            seconds = [round(86_400 * one - BEGIN.timestamp()) for one in (box.x0, box.x1)]
            found.append((round((box.y0 + box.y1) / 2), *seconds))
    return sorted(found)


def test_gaps_are_drawn_by_device_those_of_all_at_the_top_and_the_longest_first():
    rows = [
        *reports((0, 1.0), (100, 2.0)),
        *reports((0, 1.0), device="d2"),
        Row("expired", "d1", None, 10),
        Row("registration", "d1", None, 20),
        Row("deregistration", "d2", None, 40),
        Row("gap", None, None, 60, until=65),
    ]
    axes = frame_of(rows).mirror.plot_gaps(begin=at(0), end=at(100))
    assert labels(axes) == ["all devices", "d2", "d1"]
    assert bars(axes) == [(0, 60, 65), (1, 40, 100), (2, 10, 20)]
    assert legend(axes) == ["deregistration", "expired", "gap"]
    assert axes.get_title(loc="left") == "unknown intervals"
    assert axes.get_xlabel() == "time (UTC)"


def test_more_devices_than_can_be_read_are_cut_and_the_title_says_so():
    rows = []
    for number in range(40):
        rows += reports((0, 1.0), device=f"d{number:02}")
        rows.append(Row("expired", f"d{number:02}", None, 100 - number))
    frame = frame_of(rows)
    axes = frame.mirror.plot_gaps(end=at(200))
    assert labels(axes) == [f"d{number:02}" for number in range(39, 9, -1)]
    assert axes.get_title(loc="left") == "unknown intervals: 30 of 40 devices, those with the longest time"
    axes = frame.mirror.plot_availability(end=at(200))
    assert labels(axes) == [f"d{number:02}" for number in range(10, 40)]
    assert axes.get_title(loc="left").endswith("30 of 40 devices, those with the longest time")


def test_availability_is_drawn_in_three_colors_in_order_of_names():
    rows = [*reports((10, 1.0)), Row("expired", "d1", None, 30), Row("gap", None, None, 50, until=70)]
    axes = frame_of(rows).mirror.plot_availability(begin=at(0), end=at(100))
    assert bars(axes) == [(0, 0, 10), (0, 10, 30), (0, 30, 50), (0, 50, 70), (0, 70, 100)]
    assert legend(axes) == ["available", "absent", "unknown"]
    rows = [
        *reports((0, 1.0), device="d1"),
        *reports((0, 1.0), device="d2"),
        *reports((0, 1.0), device="d3"),
    ]
    frame = frame_of([*rows, Row("expired", "d1", None, 30)])
    frame["endpoint_name"] = frame["device_id"].astype(object).map({"d1": "cellar", "d2": "hall", "d3": "attic"})
    state = pd.DataFrame({"device_id": ["d0"], "endpoint_name": ["barn"], "path": TEMPERATURE, "reported_num": [1.0]})
    state["reported_at"] = pd.to_datetime([at(-90)], utc=True)
    axes = frame.mirror.plot_availability(end=at(100), state=state)
    assert labels(axes) == ["attic", "barn", "cellar", "hall"]


def test_unchanged_values_are_drawn_with_their_value():
    rows = [
        *reports((0, 1.5), (50, 2.0)),
        *reports((0, True), path="/3311/0/5850"),
        *reports((0, "$\\frac$"), path="/3/0/0"),
    ]
    frame = frame_of(rows)
    frame["endpoint_name"] = "$\\alpha$"
    axes = frame.mirror.plot_unchanged("20s", end=at(100))
    assert labels(axes) == [
        "$\\alpha$ Device · Manufacturer",
        "$\\alpha$ Light Control · On/Off",
        "$\\alpha$ Temperature · Sensor Value",
    ]
    assert bars(axes) == [(0, 0, 100), (1, 0, 100), (2, 0, 50), (2, 50, 100)]
    assert sorted(text.get_text() for text in axes.texts) == ["$\\frac$", "1.5", "2", "True"]
    assert legend(axes) == ["ongoing", "ended"]


def test_late_values_are_drawn_by_how_much_later_they_came():
    frame = frame_of(reports((0, 1.0), (50, 2.0), (20, 3.0)))
    times = [at(300), at(52), at(7220)]
    frame["received_at"] = pd.Series(pd.to_datetime(times, utc=True)).dt.as_unit("ms")
    axes = frame.mirror.plot_late_arrivals("1min")
    assert legend(axes) == ["overtaken by a newer value", "not overtaken"]
    assert [line.get_ydata().tolist() for line in axes.lines] == [[2.0], [300 / 3600]]
    assert axes.get_ylabel() == "delay (h)"
    assert axes.get_xlabel() == "changed at (UTC)"
    assert axes.get_yscale() == "linear"
    assert axes.get_ylim()[1] > 1.01 * 2.0  # a point on the edge would be cut
    times[0] = at(61)
    frame["received_at"] = pd.Series(pd.to_datetime(times, utc=True)).dt.as_unit("ms")
    assert frame.mirror.plot_late_arrivals("1min").get_yscale() == "log"


PLOTS = {"plot_gaps": (), "plot_availability": (), "plot_late_arrivals": (), "plot_unchanged": ("1s",)}


@pytest.mark.parametrize("name", PLOTS)
def test_empty_plot_says_so_and_ax_is_used(name, monkeypatch):
    plot = getattr(frame_of([]).mirror, name)
    assert [text.get_text() for text in plot(*PLOTS[name]).texts] == ["none"]
    _, axes = plt.subplots()
    assert plot(*PLOTS[name], ax=axes, tz="Europe/Berlin") is axes
    assert axes.get_xlabel().endswith("(Europe/Berlin)")
    axes.figure.canvas.draw()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'plots need matplotlib: pip install "device-state-mirror\[notebook\]"'):
        plot(*PLOTS[name])


def test_timeline_and_wide_table_of_a_history_have_only_reported_values():
    rows = reports((0, 1.0), (9, 2.0))
    frame = frame_of([*rows, Row("write", "d1", TEMPERATURE, 5, 99.0)])
    left = frame_of([*rows, Row("deregistration", "d1", None, 5), Row("gap", None, None, 12, until=13)])
    other = frame_of([*rows, Row("deregistration", "d2", None, 5)])
    for one, expected in ((frame, [1.0, 2.0]), (left, [1.0, None, 2.0, None]), (other, [1.0, 2.0])):
        (line,) = one.mirror.plot_timeline(paths=["/3303/*"]).lines
        assert [None if pd.isna(value) else value for value in line.get_ydata()] == expected
    assert not frame.mirror.plot_timeline(paths=["/1/*"]).lines
    with pytest.raises(TypeError, match="must be a list of str"):
        frame.mirror.plot_timeline(paths=TEMPERATURE)
    assert frame.mirror.wide()["d1", TEMPERATURE].tolist() == [1.0, 2.0]


def test_conditions_are_lines_and_shaded_spans_of_the_plotted_resources():
    rows = reports((0, 20.0), (5, 26.0), (10, 27.0), (20, 28.0), (25, 20.0))
    frame = frame_of([*rows, *reports((0, 50.0), path=HUMIDITY), Row("gap", None, None, 13, until=15)])
    hot = Condition(TEMPERATURE, above=25, until_below=24)
    axes = frame.mirror.plot_timeline(paths=["/3303/*"], conditions=[hot, Condition(HUMIDITY, below=90)])
    assert [line.get_ydata()[0] for line in axes.lines[1:]] == [24, 25]
    spans = [
        (*(round(86_400 * one - BEGIN.timestamp()) for one in patch.get_bbox().intervalx), bool(patch.get_hatch()))
        for patch in axes.patches
    ]
    assert spans == [(5, 13, False), (13, 20, True), (20, 25, False)]
    assert legend(axes)[1:] == ["/3303/0/5700 > 25 until below 24", "/3304/0/5700 < 90"]
    for conditions, message in ((hot, "conditions must be a list"), ([str(hot)], "Condition.parse"), (5, "not 5")):
        with pytest.raises(TypeError, match=message):
            frame.mirror.plot_timeline(conditions=conditions)
    with pytest.raises(InvalidValue, match="needs desired values, which a plot does not have"):
        frame.mirror.plot_timeline(conditions=[Condition(TEMPERATURE, differs_from_desired_for="1h")])
