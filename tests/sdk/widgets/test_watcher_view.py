"""The event watcher without a page: the content of its component, and the actions of its user."""

import threading
import warnings
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from client_test_data import NASTY
from resource_paths import SWITCH, TEMPERATURE
from thread_waits import until
from waits import PATIENCE_SECONDS
from widget_elements import START, do, observation

from mirror_sdk import Condition, Event, EventKind
from mirror_sdk.conditions.spans import Span
from mirror_sdk.frames import read_parquet
from mirror_sdk.recording import Recording
from mirror_sdk.widgets import EventWatcher
from mirror_sdk.widgets.models.chart_parts import ChartParts
from mirror_sdk.widgets.models.lines import Series, SeriesKey
from mirror_sdk.widgets.models.plotted_conditions import MAX_SPANS, PlottedCondition
from mirror_sdk.widgets.models.status import Tone
from mirror_sdk.widgets.models.time_window import Interval
from mirror_sdk.widgets.models.timeline import ColoredSpan, Marker, Shade, StateRow, Threshold
from mirror_sdk.widgets.models.watcher_model import MAX_ROWS
from mirror_sdk.widgets.plot_picture import picture


def after(milliseconds):
    return START + timedelta(milliseconds=milliseconds)


def published(watcher, name):
    return {row["key"]: row for row in watcher._rows(name).state["rows"]}


def drawn(watcher):
    """Draw immediately, and return the points of each line."""
    watcher._plotted, watcher._plot_at = None, 0
    watcher.refresh()
    state = watcher._series("lines").state
    pairs = zip(state["buffers"][::2], state["buffers"][1::2], strict=True)
    return {
        line["key"]: [np.frombuffer(one).tolist() for one in pair]
        for line, pair in zip(state["lines"], pairs, strict=True)
    }


@pytest.mark.parametrize(("conditions", "messages"), [([], 0), ([f"{TEMPERATURE} changed"], 20)])
def test_at_a_thousand_events_a_second_few_bounded_messages_are_sent(
    widget, seconds, monkeypatch, conditions, messages
):
    watcher = widget(EventWatcher, max_events=3000, clock=seconds, conditions=conditions)
    watcher._handle_custom_msg({"request": "all"}, [])
    sent = []
    monkeypatch.setattr(watcher, "send", lambda content, buffers=(): sent.append((content, sum(map(len, buffers)))))
    for step in range(40):
        seconds.now = 1000 + step / 4
        watcher._receive([observation(n, at=after(n)) for n in range(step * 250, step * 250 + 250)], 0)
        watcher.refresh()
    tables = [content for content, _ in sent if content.get("name") == "events"]
    plots = [size for content, size in sent if content.get("name") == "lines"]
    assert [len(content["rows"]) for content in tables] == [250] * 40
    assert len(plots) <= 20
    met = [row["spans"] for content, _ in sent if content.get("name") == "conditions" for row in content["rows"]]
    assert len(met) == min(messages, len(plots))
    assert all(len(spans) <= MAX_SPANS for spans in met)
    # Each time only the new points are sent, with two numbers each.
    assert max(plots[1:]) <= 2 * 8 * 750
    assert len(watcher._rows("events").rows) == MAX_ROWS
    assert "1,000.0 events/s · 10,000 events" in watcher._state["counts"]
    assert len(watcher.frame) == 3000


def test_each_quantity_and_unit_has_a_panel_and_states_have_rows(widget):
    watcher = widget(EventWatcher)
    level = [observation(n, path="/3311/0/5851", at=after(n)) for n in range(3)]
    counter = observation(18_900, path="/3200/0/5501")
    switch = [observation(0, path=SWITCH, text=text, at=after(n)) for n, text in enumerate(("0", "1", "1", "0"))]
    watcher._receive([observation(1), observation(2, "d2"), *level, counter, *switch], 0)
    lines = drawn(watcher)
    panels = published(watcher, "panels")
    assert [(panel["title"], len(panel["lines"])) for panel in panels.values()] == [
        ("Temperature", 2),
        ("Light Control · Dimmer", 1),
        ("Digital Input · Digital Input Counter", 1),
    ]
    # Temperatures are measured, the level is a set point, and a counter is an integer.
    assert [[is_stepped for *_, is_stepped in panel["lines"]] for panel in panels.values()] == [
        [False, False],
        [True],
        [True],
    ]
    assert lines["d1 /3311/0/5851"] == [[START.timestamp() * 1000 + n for n in range(3)], [0, 1, 2]]
    (row,) = published(watcher, "states").values()
    begin = START.timestamp() * 1000
    assert row["spans"] == [
        [begin, begin + 1, "false", None],
        [begin + 1, begin + 3, "true", 0],
        [begin + 3, None, "false", None],
    ]
    assert watcher._state["range"] == [begin, begin + 1000], "in steps of at least a second"


def test_losses_absences_and_outcomes_are_marked(widget):
    watcher = widget(EventWatcher)

    def happened(kind, at, **more):
        return Event(kind=kind, received_at=after(at), changed_at=after(at), device_id="d1", **more)

    watcher._receive(
        [
            observation(1),
            happened(EventKind.DEREGISTRATION, 10),
            happened(EventKind.REGISTRATION, 20),
            observation(2, at=after(30)),
            Event(kind=EventKind.GAP, received_at=after(40), first_seq=5, seq=9),
            observation(3, at=after(50)),
            happened(EventKind.ASYNC_RESPONSE, 60, path=SWITCH, status=200, async_id="a"),
            happened(EventKind.ASYNC_RESPONSE, 70, path=SWITCH, status=504, category="TIMEOUT", async_id="b"),
        ],
        0,
    )
    ((at, numbers),) = drawn(watcher).values()
    begin = START.timestamp() * 1000
    assert [one - begin for one in at] == [0, 30, 30, 50, 50]
    assert [one for one in numbers if one == one] == [1, 2, 3]
    marks = published(watcher, "marks")
    assert [(kind, first - begin, last - begin, text) for kind, first, last, text in marks["shades"]["marks"]] == [
        ("offline", 10, 20, "d1 offline"),
        ("gap", 30, 50, "5 events lost"),
    ]
    assert [(at - begin, text, tone) for at, text, tone in marks["markers"]["marks"]] == [
        (60, "d1 Light Control · On/Off written, success", "good"),
        (70, "d1 Light Control · On/Off written, failed: TIMEOUT", "bad"),
    ]


@pytest.mark.keeps_history
def test_writes_come_from_the_history_with_their_values(widget, client, simulator, device_id):
    client.subscribe(device_id, SWITCH)
    simulator.advance(60)
    client.write_value(device_id, SWITCH, True)
    simulator.advance(60)
    watcher = widget(EventWatcher)
    drawn(watcher)
    ((_, text, tone),) = published(watcher, "marks")["markers"]["marks"]
    assert (text, tone) == ("sensor-1 Light Control · On/Off written: true, success", "good")
    client.write_value(device_id, SWITCH, False)
    watcher.model._write_reads.within(0)
    watcher.refresh()
    drawn(watcher)
    assert [text.split(": ")[1] for _, text, _ in published(watcher, "marks")["markers"]["marks"]] == [
        "true, success",
        "false, success",
    ]


def test_thresholds_belong_to_the_lines_of_their_paths(widget):
    watcher = widget(EventWatcher, thresholds={TEMPERATURE: 25, "/3311/*": [10, 90.5]})
    watcher._receive([observation(1), observation(1, path="/3311/0/5851")], 0)
    drawn(watcher)
    levels = [panel["thresholds"] for panel in published(watcher, "panels").values()]
    level = {"keys": ["d1 /3311/0/5851"]}
    assert levels == [
        [{"value": 25.0, "text": "25", "keys": [f"d1 {TEMPERATURE}"]}],
        [{"value": 10.0, "text": "10"} | level, {"value": 90.5, "text": "90.5"} | level],
    ]
    with pytest.raises(TypeError, match="thresholds takes numbers, got 'hot' for /3303"):
        widget(EventWatcher, thresholds={TEMPERATURE: "hot"})
    with pytest.raises(ValueError, match="is allowed only at the end"):
        widget(EventWatcher, thresholds={"/*/0": 1})


def condition_spans(watcher):
    begin = START.timestamp() * 1000
    return {
        (row["condition"], *row["keys"]): [
            (first - begin, last and last - begin, is_known) for first, last, is_known in row["spans"]
        ]
        for row in published(watcher, "conditions").values()
    }


def test_conditions_have_limits_and_spans_of_the_events(widget):
    hot, text = Condition(TEMPERATURE, above=25, until_below=24), f"{TEMPERATURE} outside 10..28"
    both = hot & Condition("/3304/*/5700", below=30)
    watcher = widget(EventWatcher, thresholds={TEMPERATURE: 25}, conditions=[hot, text, both])
    gap = Event(kind=EventKind.GAP, received_at=after(25), first_seq=5, seq=9)
    values = [(0, 20), (10, 26), (20, 29), (30, 29), (40, 24.5), (50, 20), (60, 30)]
    events = [observation(n, at=after(n), text=str(value)) for n, value in values]
    humidity = [observation(n, path="/3304/0/5700", at=after(n), text="20") for n in (15, 35)]
    left = Event(kind=EventKind.DEREGISTRATION, received_at=after(70), changed_at=after(70), device_id="d1")
    # The first value arrives last.
    watcher._receive([events[1], humidity[0], events[2], gap, events[3], humidity[1], *events[4:], left, events[0]], 0)
    drawn(watcher)
    key, other = f"d1 {TEMPERATURE}", "d1 /3304/0/5700"
    found = condition_spans(watcher)
    assert found == {
        (str(hot), key): [(10, 20, True), (20, 30, False), (30, 50, True), (60, 70, True), (70, None, False)],
        (text, key): [(20, 20, True), (20, 30, False), (30, 40, True), (60, 70, True), (70, None, False)],
        (str(both), key, other): [(15, 20, True), (20, 35, False), (35, 50, True), (60, 70, True), (70, None, False)],
    }
    assert [panel["thresholds"] for panel in published(watcher, "panels").values()] == [
        [
            {"value": 25.0, "text": "25", "keys": [key]},
            *({"value": level, "text": f"{level:g}", "keys": []} for level in (24.0, 10.0, 28.0)),
        ],
        [{"value": 30.0, "text": "30", "keys": []}],
    ]
    ((_, spans),) = hot.spans(watcher.frame).items()
    assert [tuple(span) for span in spans][:-1] == [
        tuple(span) for span in next(iter(published(watcher, "conditions").values()))["spans"]
    ][:-1]


def test_conditions_are_met_without_a_new_event(widget):
    texts = [f"{TEMPERATURE} silent for 10s", f"{TEMPERATURE} > 25 for 20s"]
    watcher = widget(EventWatcher, conditions=texts)
    key = f"d1 {TEMPERATURE}"
    for seconds, met in (
        (0, [[], []]),
        (15, [[(10_000, None, True)], []]),
        (30, [[(10_000, None, True)], [(20_000, None, True)]]),
    ):
        watcher.model._now = lambda at=START + timedelta(seconds=seconds): at
        if not seconds:
            watcher._receive([observation(30, at=START)], 0)
        drawn(watcher)
        assert condition_spans(watcher) == {(text, key): spans for text, spans in zip(texts, met, strict=True)}
    # A later event ends what was only met because it had not arrived.
    watcher._receive([observation(20, at=after(5000))], 0)
    drawn(watcher)
    assert condition_spans(watcher) == {(texts[0], key): [(15_000, None, True)], (texts[1], key): []}


def test_wrong_conditions_are_rejected(widget):
    hot = Condition(TEMPERATURE, above=25)
    for conditions, error, message in (
        (hot, TypeError, "conditions must be a list"),
        (str(hot), TypeError, "conditions must be a list"),
        ([25], TypeError, "each of conditions must be a Condition or its text, not 25"),
        (["hot"], ValueError, "conditions: condition 'hot': expected a path"),
        ([f"{TEMPERATURE} differs from desired for 5min"], ValueError, "needs desired values"),
    ):
        with pytest.raises(error, match=message):
            widget(EventWatcher, conditions=conditions)


def test_the_range_stays_where_the_user_zooms_and_follows_again(widget):
    watcher = widget(EventWatcher)
    watcher._receive([observation(1), observation(2, at=START + timedelta(hours=2))], 0)
    begin = START.timestamp() * 1000
    do(watcher, "stay", begin, begin + 60_000)
    assert (watcher._state["fixed"], watcher._state["range"]) == ([begin, begin + 60_000], [begin, begin + 60_000])
    do(watcher, "follow", 300_000)
    watcher._plotted, watcher._plot_at = None, 0
    watcher.refresh()
    assert (watcher._state["fixed"], watcher._state["length"]) == (None, 300_000)
    assert watcher._state["range"] == [begin + 2 * 3_600_000 - 300_000, begin + 2 * 3_600_000]


@pytest.mark.parametrize("at", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
@pytest.mark.parametrize("length", [None, 3_600_000])
def test_an_event_of_the_first_or_last_year_is_plotted_and_can_be_cleared(widget, seconds, tmp_path, at, length):
    watcher = widget(EventWatcher, clock=seconds)
    do(watcher, "follow", length)
    for times in ([at], [START], [START, at]):
        watcher._receive([observation(n, at=one) for n, one in enumerate(times)], 0)
        seconds.now += 100
        watcher.refresh()
        begin, end = watcher._state["range"]
        assert begin < end
        assert watcher.to_html(tmp_path / "watcher.html").exists()
    do(watcher, "clear")
    watcher._receive([observation(1, at=START)], 0)
    seconds.now += 100
    watcher.refresh()
    begin, end = watcher._state["range"]
    assert begin <= START.timestamp() * 1000 <= end < begin + 5000
    assert watcher._state["notices"] == []


def test_the_user_chooses_devices_lines_and_pauses(widget):
    watcher = widget(EventWatcher)
    watcher._receive([observation(1), observation(2, "d2")], 0)
    watcher.refresh()
    do(watcher, "draw", [f"d2 {TEMPERATURE}"])
    assert watcher._state["drawn"] == [f"d2 {TEMPERATURE}"]
    do(watcher, "select", "1")
    assert watcher._state["selected"] == f"d1 {TEMPERATURE}"
    do(watcher, "pause")
    watcher._receive([observation(3)], 0)
    watcher.refresh()
    assert watcher._state["isPaused"]
    assert "paused: 1 new" in watcher._state["counts"]
    do(watcher, "resume")
    do(watcher, "choose", "d2", "/3303/*")
    assert [row["device"] for row in watcher._rows("events").rows] == ["d2"]
    do(watcher, "choose", "d2", "/*/1")
    assert "This cannot be chosen: '/*/1': '*' is allowed only at the end" in watcher._state["notices"]
    do(watcher, "clear")
    assert watcher._rows("events").rows == []


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_events_are_downloaded(widget, tmp_path, monkeypatch, kind):
    watcher = widget(EventWatcher)
    watcher._receive([observation(1)], 0)
    sent = []
    monkeypatch.setattr(watcher, "send", lambda content, buffers=(): sent.append((content, buffers)))
    do(watcher, "download", kind)
    ((message, (content,)),) = [one for one in sent if one[0]["kind"] == "message"]
    assert message["content"]["name"].endswith(f".{kind}")
    file = tmp_path / f"events.{kind}"
    file.write_bytes(content)
    if kind == "parquet":
        assert len(read_parquet(file)) == 1
    else:
        assert content.startswith(b"kind") or b"device_id" in content.splitlines()[0]
    do(watcher, "download", "exe")
    assert watcher._state["notices"] == ["The download failed: kind must be csv or parquet, got 'exe'"]


def test_an_existing_file_is_overwritten_only_when_that_is_chosen(widget, tmp_path):
    watcher = widget(EventWatcher)
    file = str(tmp_path / "events.parquet")
    watcher._receive([observation(1)], 0)
    do(watcher, "save", file, False)
    assert len(read_parquet(file)) == 1
    assert watcher._state["saved"].startswith("1 event in ")
    watcher._receive([observation(2)], 0)
    do(watcher, "save", file, False)
    assert "choose another name, or overwrite it" in watcher._state["notices"][0]
    assert len(read_parquet(file)) == 1
    do(watcher, "save", file, True)
    assert len(read_parquet(file)) == 2
    assert watcher._state["notices"] == []


def test_the_report_has_the_picture_the_legend_and_the_table(widget, tmp_path):
    watcher = widget(EventWatcher)
    assert "data:image/png" not in watcher._static_body()()
    watcher._receive([observation(n, at=after(n), text="7.25") for n in range(60)], 0)
    drawn(watcher)
    report = watcher.to_html(tmp_path / "report.html").read_text()
    assert 'src="data:image/png;base64,' in report
    assert 'alt="Plot over time: d1 Temperature · Sensor Value from 7.25 to 7.25"' in report
    assert "Legend" in report
    assert "Changed at (UTC)" in report
    assert report.index(">Value<") < report.index("Received (UTC)"), "in a narrow page the value is what is in sight"
    assert "2026-01-05 08:00:00.059" in report
    assert "the first 50 of 60 rows" in report
    assert "2026-01-05 08:00:00.001" not in report


COMPLETE_RANGE = Interval(datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 5, 0, 1, tzinfo=UTC))


def series(device, unit, *numbers):
    at = COMPLETE_RANGE.begin.timestamp() * 1000 + 1000.0 * np.arange(len(numbers))
    is_connected = np.ones(len(numbers), dtype=bool)
    return Series(SeriesKey(device, TEMPERATURE), f"{device} {NASTY}", unit, at, np.array(numbers), is_connected)


@pytest.mark.parametrize("name", ["$\\frac{1}{0}$", "_hidden", "a\u0300\U0001f321"])
def test_any_data_is_drawn_without_a_warning(name):
    lines = [series(name, "$^$", 1e100, -1e100), series("small", "", 0.0, 1e-300), series("empty", "Cel")]
    span = ColoredSpan(COMPLETE_RANGE.begin, None, name, 0)
    states = [StateRow(SeriesKey(name, "/3/0/0"), name, [span]), StateRow(SeriesKey(name, "/3/0/1"), name, [])]
    shades = [
        Shade("gap", COMPLETE_RANGE.begin, COMPLETE_RANGE.begin, name),
        Shade("offline", COMPLETE_RANGE.begin, None, name),
    ]
    markers = [Marker(COMPLETE_RANGE.begin, name, Tone.BAD)]
    colors = {line.key: 9 for line in lines}
    for chart in (
        ChartParts(lines, states, shades, markers),
        ChartParts([], states, [], []),
        ChartParts(lines, [], [], []),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made = picture(chart, COMPLETE_RANGE, colors, [Threshold("/3303/*", 1.0)])
        assert made.startswith(b"\x89PNG")


def test_conditions_are_drawn_in_the_picture():
    (line,) = lines = [series("d1", "Cel", 20.0, 30.0, 20.0)]
    state = StateRow(SeriesKey("d1", SWITCH), "switch", [ColoredSpan(COMPLETE_RANGE.begin, None, "true", 0)])
    begin = int(COMPLETE_RANGE.begin.timestamp() * 1000)
    pictures = set()
    for key, levels in ((line.key, [25.0]), (state.key, [])):
        for spans in ([], [Span(begin + 1000, begin + 2000, True)], [Span(begin + 1000, None, False)]):
            condition = PlottedCondition("/3303/0/5700 = $\\frac$", 0, "d1", {key: levels}, spans)
            chart = ChartParts(lines, [state], [], [], [condition])
            pictures.add(picture(chart, COMPLETE_RANGE, {line.key: 0}))
    pictures.add(picture(ChartParts(lines, [state], [], []), COMPLETE_RANGE, {line.key: 0}))
    assert len(pictures) == 7


# Recordings


def test_the_selection_is_recorded_until_it_is_stopped(widget, client, simulator, device_id, tmp_path):
    other = simulator.add_device("other", [{"path": TEMPERATURE, "value": "1", "observable": True}])
    watcher = widget(EventWatcher, devices=["sensor-1"], paths=["/3303/*"])
    for device in (device_id, other):
        client.subscribe(device, TEMPERATURE)
    do(watcher, "record", str(tmp_path / "recording.parquet"))
    assert watcher._state["isRecording"]
    for device in (device_id, other):
        client.read_value(device, TEMPERATURE)
    simulator.set_value(device_id, TEMPERATURE, 33)
    do(watcher, "record", "")
    assert not watcher._state["isRecording"]
    frame = Recording(tmp_path / "recording.parquet").events()
    assert set(frame["device_id"]) == {device_id}
    assert 33.0 in set(frame["value_num"])


def test_a_recording_that_starts_while_its_widget_closes_is_stopped(widget, client, tmp_path, monkeypatch):
    record, recorders = client.record, []
    called, closed = threading.Event(), threading.Event()

    def record_late(*arguments, **options):
        called.set()
        assert closed.wait(PATIENCE_SECONDS)
        recorders.append(record(*arguments, **options))
        return recorders[0]

    monkeypatch.setattr(client, "record", record_late)
    watcher = widget(EventWatcher, live=True)
    do(watcher, "record", str(tmp_path / "recording.parquet"))
    assert called.wait(PATIENCE_SECONDS)
    watcher.close()
    closed.set()
    until(lambda: recorders and not recorders[0].is_running)
