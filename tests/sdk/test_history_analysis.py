"""Analysis of the history: compared with a reference implementation, and at the boundaries."""

import inspect
import math
import re
from dataclasses import replace
from datetime import datetime
from itertools import groupby, pairwise

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_history import (
    BEGIN,
    DEVICES,
    LENGTHS,
    SECONDS,
    Naive,
    Row,
    at,
    frame_of,
    histories,
    limited,
    readable,
    reports,
)
from resource_paths import TEMPERATURE

from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames import HISTORY_SCHEMA, read_parquet
from mirror_sdk.frames.columns import build

RESULTS = {
    "resample": lambda frame: frame.mirror.resample("10s", ["time_weighted_mean", "last", "min", "max", "count"]),
    "resample durations": lambda frame: frame.mirror.resample("10s", "duration"),
    "durations": lambda frame: frame.mirror.durations(TEMPERATURE, above=0),
    "each duration": lambda frame: frame.mirror.durations(TEMPERATURE, above=0, per_interval=True),
    "unchanged": lambda frame: frame.mirror.unchanged("1s"),
    "availability": lambda frame: frame.mirror.availability(),
    "each presence": lambda frame: frame.mirror.availability(per_interval=True),
    "gaps": lambda frame: frame.mirror.gaps(),
    "late_arrivals": lambda frame: frame.mirror.late_arrivals("1s"),
    "rates": lambda frame: frame.mirror.rates(TEMPERATURE),
    "binned rates": lambda frame: frame.mirror.rates(TEMPERATURE, bin="10s"),
    "compare": lambda frame: frame.mirror.compare(at(0), at(20), "10s"),
}


def seconds(spans):
    return (spans / pd.Timedelta("1s")).tolist()


def instants(times):
    """Return seconds after the beginning; ``None`` for none."""
    return [None if pd.isna(one) else (one - BEGIN).total_seconds() for one in times]


def rows_of(found, names):
    """Return the rows of some columns: times as seconds after the beginning, and durations in seconds."""
    columns = [found[name] for name in names.split()]
    read = {"datetime64": instants, "timedelta64": seconds}
    return list(zip(*(read.get(str(one.dtype).partition("[")[0], list)(one) for one in columns), strict=True))


def runs(found):
    """Return intervals of seconds with a constant result other than ``None``: begin, end and the result."""
    for answer, some in groupby(found, key=lambda one: one[1]):
        listed = [second for second, _ in some]
        if answer is not None:
            yield listed[0], listed[-1] + 1, answer


@st.composite
def queries(draw, values=None):
    """Draw a history, the begin and end of a query, its arguments, and the reference implementation of the history."""
    rows = draw(histories(values))
    begin, limit = draw(st.sampled_from([0, 0, 5, 12, 30])), draw(st.one_of(st.none(), st.integers(1, 12)))
    end = draw(st.one_of(st.just(SECONDS + 5), st.integers(begin, SECONDS + 10)))
    naive = Naive(rows, limit, max([end, *(row.at for row in rows)]))
    options = {"begin": at(begin), "end": at(end), "silence_limit": limited(limit)}
    return frame_of(rows), begin, end, options, naive


def by_resource(naive, begin, end, answer):
    """Yield each resource with the results of all of its seconds."""
    for device, path in naive.resources:
        yield device, path, [(second, answer(naive.known(device, path, second))) for second in range(begin, end)]


# Durations


CONDITIONS = [
    ({"above": 0.5}, lambda value: value > 0.5),
    ({"below": 0.1}, lambda value: value < 0.1),
    ({"above": -3, "below": 1.0}, lambda value: -3 < value < 1.0),
    ({"equals": 1.5}, lambda value: value == 1.5),
]


@settings(max_examples=25)
@given(queries(), st.sampled_from(CONDITIONS))
def test_durations_are_those_of_a_plain_computation(question, condition):
    frame, begin, end, options, naive = question
    arguments, holds = condition
    expected, intervals = [], []
    for device, path, each in by_resource(naive, begin, end, lambda value: None if value is None else holds(value)):
        true_runs = [(first, last) for first, last, is_so in runs(each) if is_so]
        known = dict(each)
        lengths = [last - first for first, last in true_runs]
        total, count = sum(lengths), sum(value is not None for value in known.values())
        expected.append((device, path, total, len(true_runs), max(lengths, default=0), count))
        for first, last in true_runs:
            sight = known.get(first - 1) is not None, known.get(last) is not None
            intervals.append((device, path, first, last, last - first, *sight))
    found = frame.mirror.durations("/3303/*", **arguments, **options)
    assert rows_of(found, "device_id path duration intervals longest known") == expected
    shares = [None if row[5] == 0 else row[2] / row[5] for row in expected]
    assert [None if pd.isna(one) else one for one in found["share"]] == pytest.approx(shares)
    rows = frame.mirror.durations("/3303/*", **arguments, **options, per_interval=True)
    assert rows_of(rows, "device_id path begin end duration begin_seen end_seen") == intervals


def test_a_text_may_be_the_condition_and_booleans_need_none():
    frame = frame_of(
        [
            *reports((0, "on"), (10, "off"), (30, "on")),
            *reports((0, True), (20, False), path="/3311/0/5850"),
        ]
    )
    for path, equals, expected in (
        (TEMPERATURE, "on", 15),
        (TEMPERATURE, "away", 0),
        ("/3311/0/5850", None, 20),
        ("/3311/0/5850", True, 20),
        ("/3311/0/5850", False, 15),
    ):
        assert seconds(frame.mirror.durations(path, equals=equals, end=at(35))["duration"]) == [expected]


@pytest.mark.parametrize(
    ("value", "arguments", "message"),
    [
        (
            1.0,
            {},
            r"has numbers: without a condition, durations\(\) measures how long a boolean is true; pass above=, below=",
        ),
        (1.0, {"equals": True}, r"has numbers: equals=True cannot be compared with them"),
        (1.0, {"equals": "on"}, r"has numbers: equals='on' is a string"),
        (True, {"above": 1}, r"has booleans: above= and below= apply to numbers; omit the condition"),
        ("on", {}, r'has strings: .*; pass equals=, such as equals="on"'),
        (1.0, {"above": "warm"}, r"above='warm' is not a number; pass one like above=24.0"),
        (1.0, {"below": math.nan}, r"below=nan is not a number"),
        (1.0, {"equals": None, "above": True}, r"above=True is not a number"),
        (1.0, {"equals": 1, "above": 1}, r"equals=1 cannot be combined with above= or below="),
        (1.0, {"equals": [1]}, r"equals=\[1\] must be a number, a boolean or a string"),
    ],
)
def test_condition_that_does_not_fit_the_values_is_rejected(value, arguments, message):
    with pytest.raises(InvalidValue, match=message):
        frame_of(reports((0, value))).mirror.durations(TEMPERATURE, **arguments)


@settings(max_examples=25)
@given(queries(), st.integers(1, 8))
def test_unchanged_values_equal_a_plain_computation(question, longer_than):
    frame, begin, end, options, naive = question
    expected = []
    for device, path, each in by_resource(naive, begin, end, lambda value: value):
        times = [row.at for row in naive.values(device, path)]
        for first, last, value in runs(each):
            if last - first > longer_than:
                count = sum(first <= time < last for time in times)
                expected.append((device, path, value, first, last, count, last == end))
    found = frame.mirror.unchanged(f"{longer_than}s", **options)
    assert rows_of(found, "device_id path value_num begin end count ongoing") == expected
    assert found["duration"].tolist() == (found["end"] - found["begin"]).tolist()


def test_unchanged_value_has_its_count_and_whether_it_is_ongoing():
    rows = [
        *reports((0, 1.0), (10, 1.0), (20, 2.0), (30, 2.0), (30, 2.0)),
        *reports((0, True), (5, True), path="/3311/0/5850"),
        *reports((0, "a"), path="/3/0/0"),
    ]
    found = frame_of(rows).mirror.unchanged("15s", end=at(40))
    assert found["path"].tolist() == ["/3/0/0", TEMPERATURE, TEMPERATURE, "/3311/0/5850"]
    assert found["count"].tolist() == [1, 2, 3, 2]
    assert found["ongoing"].tolist() == [True, False, True, True]
    assert found.mirror.value.tolist() == ["a", 1.0, 2.0, True]


# Names


@pytest.mark.parametrize("name", RESULTS)
def test_result_has_endpoint_names_and_metadata(name):
    rows = [
        Row("registration", "d2", None, 0),
        *reports((0, 1.0), (30, 2.0)),
        *reports((0, 1.0), (10, 3.0), device="d2"),
        Row("reported", "d1", TEMPERATURE, 5, 1.5, order=9),
        Row("deregistration", "d1", None, 40, order=10),
        Row("registration", "d1", None, 41, order=11),
    ]
    frame = frame_of(rows, taken_at=at(60).isoformat(), devices=2, complete=False, server="http://a")
    frame["endpoint_name"] = pd.Categorical(["hall"] * len(frame))
    before = frame.copy()
    found = RESULTS[name](frame)
    pd.testing.assert_frame_equal(frame, before)
    assert len(found)
    assert found.attrs["mirror"] == frame.attrs["mirror"]
    columns = found.columns.tolist()
    assert columns[columns.index("device_id") + 1] == "endpoint_name"
    assert found["endpoint_name"].tolist() == ["hall"] * len(found)
    assert RESULTS[name](frame.drop(columns="endpoint_name"))["endpoint_name"].isna().all()
    # The order of the rows does not matter.
    pd.testing.assert_frame_equal(RESULTS[name](frame.iloc[::-1]), found)


# Availability


@settings(max_examples=25)
@given(queries())
def test_availability_is_that_of_a_plain_computation(question):
    frame, begin, end, options, naive = question
    expected, intervals = [], []
    for device in [one for one in DEVICES if any(row.device == one for row in naive.rows)]:
        first = min(row.at for row in naive.rows if row.device == device)
        own = [one for one in naive.intervals if one[0] == device and one[3] != "gap"]
        each = []
        for second in range(begin, end):
            word = "absent" if any(b <= second < e for _, b, e, _ in own) else "available"
            is_unknown = second < first or naive.is_absent(device, second, "gap")
            each.append((second, "unknown" if is_unknown else word))
        found = list(runs(each))
        intervals += [(device, word, first, last) for first, last, word in found]
        lengths = {word: [e - b for b, e, one in found if one == word] for word in ("available", "absent", "unknown")}
        absences = lengths["absent"]
        last_seen = max([second for second in naive.report_instants(device) if second < end], default=None)
        expected.append((device, *map(sum, lengths.values()), len(absences), max(absences, default=0), last_seen))
    found = frame.mirror.availability(**options)
    names = "device_id available absent unknown absences longest_absence last_seen_at"
    assert rows_of(found, names) == expected
    for row, share in zip(expected, found["availability"], strict=True):
        assert pd.isna(share) if row[1] + row[2] == 0 else share == pytest.approx(row[1] / (row[1] + row[2]))
    rows = frame.mirror.availability(**options, per_interval=True)
    assert rows_of(rows, "device_id presence begin end") == intervals


def test_silent_device_of_the_state_has_a_row():
    state = pd.DataFrame(
        {
            "device_id": pd.Categorical(["d0", "d1", "d2", "d3"], categories=["d0", "d1", "d2", "d3", "d9"]),
            "endpoint_name": ["c", "a", "b", "z"],
            "path": TEMPERATURE,
            "reported_num": [1.0, 1.0, 1.0, None],
            "reported_at": pd.to_datetime([at(-500), at(-5), at(-500), None], utc=True).as_unit("ms"),
        }
    )
    frame = frame_of(reports((0, 1.0), (50, 2.0), device="d1"))
    options = {"begin": at(0), "end": at(100), "silence_limit": "60s"}
    assert frame.mirror.availability(**options)["device_id"].tolist() == ["d1"]
    found = frame.mirror.availability(state=state, **options)
    assert rows_of(found, "device_id available absent unknown last_seen_at") == [
        ("d0", 0, 100, 0, -500),
        ("d1", 100, 0, 0, 50),
        ("d2", 0, 100, 0, -500),
        ("d3", 0, 0, 100, None),
    ]
    # Without a limit no device is silent.
    silent = frame.mirror.availability(state=state, begin=at(0), end=at(100))
    assert seconds(silent["available"]) == [100, 100, 100, 0]
    each = frame_of([]).mirror.availability(state=state, per_interval=True, **options)
    assert each["presence"].tolist() == ["absent", "available", "absent", "absent", "unknown"]


@settings(max_examples=25)
@given(queries())
def test_gaps_are_those_of_a_plain_computation(question):
    frame, begin, end, options, naive = question
    expected = [
        (device or "", first, last, why) for device, first, last, why in naive.intervals if first < end and last > begin
    ]
    found = frame.mirror.gaps(**options)
    ends = [math.inf if one is None else one for one in instants(found["end"])]
    devices = [("" if pd.isna(one) else one) for one in found["device_id"]]
    rows = list(zip(devices, instants(found["begin"]), ends, found["reason"], strict=True))
    assert sorted(rows) == sorted(expected)
    assert rows == sorted(rows, key=lambda row: row[:2])
    seen = [min(last, naive.known_until) - first for _, first, last, _ in rows if last == math.inf]
    assert seconds(found["duration"][found["end"].isna()]) == seen


# Repeated values


DOOR = "/3342/0/5500"
HOUR = 3600


def door(*rows, order=None, **metadata):
    """Return the history of a door that closed at half past nine; its device was absent from one until two o'clock."""
    before = [
        Row("reported", "d1", DOOR, 9 * HOUR, True, order=1, received=9 * HOUR),
        Row("reported", "d1", DOOR, 9 * HOUR + 1800, False, order=2, received=9 * HOUR + 1800),
        Row("deregistration", "d1", None, 13 * HOUR, order=3, received=13 * HOUR),
        Row("registration", "d1", None, 14 * HOUR, order=4, received=14 * HOUR),
    ]
    return frame_of([*before, *rows], **metadata)


def repeated(at, received, value=False, order=5):
    return Row("reported", "d1", DOOR, int(at * HOUR), value, order=order, received=int(received * HOUR))


def closed(frame, **options):
    """Return the hours during which the door was known to be closed."""
    rows = frame.mirror.durations(
        DOOR, equals=False, per_interval=True, begin=at(9 * HOUR), end=at(18 * HOUR), **options
    )
    return [(begin / HOUR, end / HOUR) for begin, end in rows_of(rows, "begin end")]


def test_old_value_reported_after_an_absence_is_known_from_its_receipt_on():
    assert closed(door()) == [(9.5, 13)]
    back = door(repeated(9.5, 14))
    assert closed(back) == [(9.5, 13), (14, 18)]
    hourly = back.mirror.align([DOOR], on="1h", begin=at(9 * HOUR), end=at(16 * HOUR))[DOOR]
    assert hourly.tolist() == [False, False, False, False, pd.NA, False, False]
    counts = back.mirror.resample("1h", "count", begin=at(9 * HOUR), end=at(16 * HOUR))
    assert counts["count"].tolist() == [3, 0, 0, 0, 0, 0, 0]
    stays = back.mirror.unchanged("1h", begin=at(9 * HOUR), end=at(18 * HOUR))
    assert stays["count"].tolist() == [2, 0]
    # The value is valid until the next one. A value that is not reported again stays unknown.
    assert closed(door(repeated(9.5, 14), repeated(16, 16, value=True, order=6))) == [(9.5, 13), (14, 16)]
    # The order of the rows does not matter.
    assert closed(back.iloc[::-1]) == closed(back)
    # A report from before the absence does not count, nor one that a newer value has superseded.
    assert closed(door(repeated(9.5, 13.5, order=3))) == [(9.5, 13)]
    assert closed(door(repeated(9, 14, value=True))) == [(9.5, 13)]
    # Only up to the end of the known time.
    metadata = {"oldest_at": at(0).isoformat(), "end": at(15 * HOUR).isoformat()}
    assert closed(door(repeated(9.5, 14), **metadata)) == [(9.5, 13), (14, 15)]


def test_a_gap_of_the_service_and_a_silence_are_absences_too():
    rows = [repeated(9.5, 15.5), Row("gap", None, None, 15 * HOUR, until=15 * HOUR + 900, order=4)]
    assert closed(door(*rows)) == [(9.5, 13), (15.5, 18)]
    other = Row("reported", "d1", TEMPERATURE, 15 * HOUR, 1.0, order=6, received=15 * HOUR)
    frame = door(repeated(9.5, 15), other)
    assert closed(frame, silence_limit="2h") == [(9.5, 11.5), (15, 17)]


def test_with_receipt_times_of_the_client_the_previous_registration_counts():
    live = door(repeated(9.5, 14), repeated(17, 17, order=6, value=True)).drop(columns="revision")
    live["received_at"] += pd.Timedelta("100D")
    assert closed(live) == [(9.5, 13), (14, 17)]
    # All rows were read together, after all events, so only their numbers show which came after the registration.
    late = live.assign(received_at=at(10**6))
    assert closed(late) == [(9.5, 13)]
    numbered = late.assign(seq=pd.Series([1, 2, 3, 4, 5, 6], dtype="Int64"))
    assert closed(numbered) == [(9.5, 13), (14, 17)]
    assert closed(numbered.assign(seq=pd.Series([1, 2, 4, 5, 3, 6], dtype="Int64"))) == [(9.5, 13)]
    assert closed(late.drop(columns="received_at")) == [(9.5, 13)]


def test_repeated_counter_value_rises_from_its_receipt_on():
    rows = [
        Row("reported", "d1", TEMPERATURE, 0, 5.0, order=1, received=0),
        Row("expired", "d1", None, 10, order=2),
        Row("registration", "d1", None, 20, order=3),
        Row("reported", "d1", TEMPERATURE, 0, 5.0, order=4, received=20),
        Row("reported", "d1", TEMPERATURE, 0, 5.0, order=5, received=25),
        Row("reported", "d1", TEMPERATURE, 30, 9.0, order=6, received=30),
    ]
    found = frame_of(rows).mirror.rates(TEMPERATURE)
    assert rows_of(found, "begin end increase") == [(20, 30, 4.0)]


# Delayed arrivals


@settings(max_examples=25)
@given(histories(), st.one_of(st.none(), st.integers(1, 10)), st.data())
def test_late_values_are_those_of_a_plain_computation(rows, longer_than, data):
    rows = [replace(row, received=row.at + data.draw(st.integers(-5, 15))) for row in rows]
    values = [row for row in rows if row.what == "reported"]
    expected = []
    for row in sorted(values, key=lambda row: (row.device, row.path, row.order)):
        own = [one for one in values if (one.device, one.path) == (row.device, row.path)]
        lag = max([one.at - row.at for one in own if one.order < row.order] + [0])
        delay = row.received - row.at
        if lag or (longer_than is not None and delay > longer_than):
            expected.append((row.device, row.path, row.at, row.received, delay, lag))
    # The order of the rows does not matter, because the table numbers them.
    found = frame_of(rows).sample(frac=1, random_state=1).mirror.late_arrivals(limited(longer_than))
    assert rows_of(found, "device_id path changed_at received_at delay lag") == expected


def test_without_numbers_the_order_of_arrival_is_that_of_the_receipt():
    frame = frame_of(reports((0, 1.0), (5, 2.0), (9, 3.0))).drop(columns="revision")
    times = [at(20), at(10), at(30)]
    frame["received_at"] = pd.Series(pd.to_datetime(times, utc=True)).dt.as_unit("ms")
    found = frame.mirror.late_arrivals()
    assert seconds(found["lag"]) == [5]
    assert seconds(found["delay"]) == [20]
    assert found.drop(columns="delay").equals(frame.iloc[::-1].mirror.late_arrivals().drop(columns="delay"))


# Counters


@settings(max_examples=25)
@given(queries(), st.sampled_from(LENGTHS))
def test_rates_are_those_of_a_plain_computation(question, length):
    frame, begin, end, options, naive = question
    pairs = []
    for device, path in naive.resources:
        last = {row.at: readable(row.value) for row in naive.steps(device, path)}
        for (first, before), (second, after) in pairwise(last.items()):
            is_known = all(naive.known(device, path, one) is not None for one in range(first, second))
            if is_known and before is not None and after is not None and second > begin and first < end:
                rise = after - before if after >= before else after
                pairs.append((device, path, first, second, rise, after < before))
    found = frame.mirror.rates("*", per="1min", **options)
    assert rows_of(found, "device_id path begin end reset") == [(*one[:4], one[5]) for one in pairs]
    assert found["increase"].tolist() == pytest.approx([one[4] for one in pairs])
    assert found["rate"].tolist() == pytest.approx([60 * one[4] / (one[3] - one[2]) for one in pairs])
    for row in frame.mirror.rates("*", bin=f"{length}s", **options).to_dict("records"):
        (first,) = map(int, instants([row["bin"]]))
        low, high = max(first, begin), min(first + length, end)
        known = increase = resets = 0
        for device, path, start, stop, rise, is_reset in pairs:
            if (device, path) == (row["device_id"], row["path"]):
                part = max(0, min(stop, high) - max(start, low))
                known, increase = known + part, increase + rise * (part / (stop - start))
                resets += is_reset and low <= stop < high
        assert row["covered"] == pytest.approx(known / length)
        assert row["resets"] == resets
        for name, value in (("increase", increase), ("rate", increase / known if known else None)):
            assert row[name] == pytest.approx(value, rel=1e-6, abs=1e-9) if known else pd.isna(row[name])


def test_reset_counter_counts_from_zero():
    frame = frame_of(reports((0, 10.0), (10, 14.0), (20, 3.0), (20, 4.0), (30, 4.0)))
    found = frame.mirror.rates(TEMPERATURE)
    assert found["increase"].tolist() == [4.0, 4.0, 0.0]
    assert found["reset"].tolist() == [False, True, False]
    huge = frame_of(reports((0, -1e308), (1, 1e308))).mirror.rates(TEMPERATURE)
    assert huge["increase"].tolist() == [math.inf]
    with pytest.raises(InvalidValue, match="has values that are not numbers; pass the path of a counter"):
        frame_of(reports((0, "a"))).mirror.rates(TEMPERATURE)


# Side by side


def test_an_aligned_table_has_a_column_for_each_resource_of_the_kind_of_its_values():
    rows = [
        *reports((0, 1.0), (60, 2.0)),
        *reports((0, True), path="/3311/0/5850"),
        *reports((0, "a"), path="/3/0/0"),
    ]
    rows += reports((30, 5.0), device="d2")
    frame = frame_of(rows, taken_at=at(90).isoformat(), server="http://a")
    side = frame.mirror.align(["/3311/*", TEMPERATURE, "/3/0/0"], on="1min", end=at(90))
    assert side.index.names == ["device_id", "bin"]
    assert side.columns.tolist() == ["/3311/0/5850", TEMPERATURE, "/3/0/0"]
    assert [str(dtype) for dtype in side.dtypes] == ["boolean", "Float64", "string"]
    assert side.loc["d1"].values.tolist() == [[True, 1.0, "a"], [True, 2.0, "a"]]
    assert side.loc["d2", TEMPERATURE].tolist() == [5.0, 5.0]
    assert side.loc["d2"].isna().sum().tolist() == [2, 0, 2]
    assert side.attrs["mirror"] == {"taken_at": at(90).isoformat(), "server": "http://a"}
    counts = frame.mirror.align([TEMPERATURE], on="1min", how="count", end=at(90))
    assert counts[TEMPERATURE].tolist() == [1, 1, 1, 0]
    berlin = frame.mirror.align(on="1min", end=at(90), tz="Europe/Berlin")
    assert str(berlin.index.get_level_values("bin")[0]) == "2026-03-02 13:00:00+01:00"
    assert frame_of([]).mirror.align().empty
    for how in ("duration", ["last", "min"]):
        with pytest.raises(InvalidValue, match="must be time_weighted_mean, last"):
            frame.mirror.align(how=how)


@settings(max_examples=25)
@given(histories(), st.integers(0, SECONDS), st.integers(0, SECONDS), st.integers(1, 20), st.integers(1, 20))
def test_comparison_equals_the_separate_results(rows, first, second, length, span):
    naive = Naive(rows)
    expected = []
    for device, path in naive.resources:
        for offset in range(0, length, span):
            width = min(span, length - offset)
            both = []
            for begin in (first, second):
                known = [naive.known(device, path, begin + offset + one) for one in range(width)]
                known = [one for one in known if one is not None]
                both.append((sum(one / len(known) for one in known) if known else None, len(known) / width))
            expected.append((device, path, offset, *both))
    found = frame_of(rows).mirror.compare(at(first), at(second), f"{length}s", bin=f"{span}s")
    assert rows_of(found, "device_id path offset") == [cell[:3] for cell in expected]
    for row, (*_, a, b) in zip(found.to_dict("records"), expected, strict=True):
        for name, (value, covered) in (("a", a), ("b", b)):
            assert pd.isna(row[name]) if value is None else row[name] == pytest.approx(value)
            assert row[f"covered_{name}"] == pytest.approx(covered)
        is_missing = a[0] is None or b[0] is None
        assert pd.isna(row["difference"]) if is_missing else row["difference"] == row["b"] - row["a"]


# Their columns


OTHERS = {
    "resample durations": "bin device_id endpoint_name path value duration covered",
    "each duration": "device_id endpoint_name path begin end duration begin_seen end_seen",
    "each presence": "device_id endpoint_name presence begin end duration",
    "binned rates": "bin device_id endpoint_name path increase rate resets covered",
}
EMPTY = build({name: [] for name in HISTORY_SCHEMA.names}, HISTORY_SCHEMA)
SOME = reports((0, 1.0), (9, 2.0), (4, 3.0), (20, 3.0))
SOME += [Row("expired", "d1", None, 12), Row("reg_update", "d1", None, 14)]


@pytest.mark.parametrize("name", sorted(RESULTS.keys() - OTHERS.keys()))
def test_the_columns_are_the_documented_ones_also_of_an_empty_table(name, tmp_path):
    for frame in (EMPTY, frame_of(SOME)):
        text = inspect.getdoc(getattr(frame.mirror, name))
        documented = re.findall(r"^ *(\w+)  +(\S.*?)  +\S", text, flags=re.MULTILINE)
        documented = documented[documented.index(("column", "dtype")) + 1 :]
        found = RESULTS[name](frame)
        assert [(column, str(dtype).partition("[python")[0]) for column, dtype in found.dtypes.items()] == documented
        found.to_parquet(tmp_path / "answer.parquet")
        assert len(found) == 0 or read_parquet(tmp_path / "answer.parquet").equals(found)


@pytest.mark.parametrize("name", OTHERS)
def test_per_interval_result_has_the_documented_columns(name):
    for frame in (EMPTY, frame_of(SOME)):
        assert RESULTS[name](frame).columns.tolist() == OTHERS[name].split()


def test_times_are_in_the_requested_zone():
    frame = frame_of(SOME)
    for found, column in (
        (frame.mirror.gaps(tz="Europe/Berlin"), "begin"),
        (frame.mirror.late_arrivals("1s", tz="Europe/Berlin"), "changed_at"),
        (frame.mirror.in_zone("Europe/Berlin").mirror.unchanged("1s"), "end"),
        (frame.mirror.availability(tz="Europe/Berlin"), "last_seen_at"),
    ):
        assert str(found[column].dt.tz) == "Europe/Berlin"


TEXTS = frame_of(reports((0, "a"), (9, "b")))


def test_texts_are_counted_where_they_are_compared():
    assert TEXTS.mirror.compare(at(0), at(5), "5s", how="count")["difference"].tolist() == [0.0]


def resampling(*arguments, **options):
    return lambda frame: frame.mirror.resample(*arguments, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (resampling("soon"), r"bin='soon' is not a duration; write one like '15min'"),
        (resampling("0s"), r"bin='0s' must be a millisecond or longer"),
        (resampling("1s", "mean"), r"how='mean' must be one of time_weighted_mean, last"),
        (resampling("1s", ["duration", "last"]), r'"duration" cannot be combined with other statistics'),
        (resampling("1s", silence_limit="-1s"), r"silence_limit='-1s' must be"),
        (resampling("1s", begin=datetime(2026, 1, 1)), r"begin=2026-01-01 00:00:00 has no time zone"),
        (resampling("1s", begin=at(9), end=at(1)), r"is before begin="),
        (resampling("1ms", begin=at(-(10**9))), r"rows; the limit is 50,000,000. Pass a longer bin"),
        (lambda frame: frame.mirror.unchanged("long"), r"longer_than='long' is not a duration"),
        (lambda frame: frame.mirror.late_arrivals("long"), r"longer_than='long' is not a duration"),
        (lambda frame: frame.mirror.rates(TEMPERATURE, per="0s"), r"per='0s' must be a millisecond or longer"),
        (lambda frame: frame.mirror.rates(TEMPERATURE, bin="x"), r"bin='x' is not a duration"),
        (lambda frame: frame.mirror.align(on="x"), r"on='x' is not a duration"),
        (lambda frame: frame.mirror.compare(at(0), at(1), "x"), r"length='x' is not a duration"),
        (lambda frame: frame.mirror.compare(at(0), at(1).replace(tzinfo=None), "1s"), r"begin_b=.* has no time zone"),
        (lambda frame: frame.mirror.gaps(tz="Mars"), r"tz='Mars' is not a time zone"),
        (lambda _: TEXTS.mirror.compare(at(0), at(5), "5s", how="last"), r"how='last': cannot compare strings; select"),
        (lambda frame: frame.drop(columns="path").mirror.gaps(), r"the table lacks the column path"),
    ],
)
def test_invalid_argument_is_rejected(call, message):
    with pytest.raises(InvalidValue, match=message):
        call(frame_of(reports((0, 1.0))))


def test_texts_read_as_numbers_are_rejected():
    frame = frame_of(reports((0, "00012"), (5, "00013")))
    options = {"equals": "00012", "end": at(10)}
    assert seconds(frame.mirror.durations(TEMPERATURE, **options)["duration"]) == [5]
    for damaged in ([12.0, 13.0], ["00012", 13]):
        with pytest.raises(InvalidValue, match=r"value_text has values that are not strings"):
            frame.assign(value_text=pd.Series(damaged, dtype=None)).mirror.durations(TEMPERATURE, **options)
