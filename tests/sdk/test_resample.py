"""Statistics by bins of time: compared with a reference implementation, and at the boundaries."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_history import LENGTHS, SECONDS, Naive, Row, at, frame_of, histories, limited, readable, reports
from resource_paths import TEMPERATURE

from mirror_sdk.errors import InvalidValue, UnitWarning
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames import events_frame, history_frame
from mirror_sdk.frames.analysis.bins import bins_of
from mirror_sdk.values import decode

ALL = ["time_weighted_mean", "last", "min", "max", "count"]
HOUR = 3_600_000


def naive_bins(naive, length, begin, end):
    """Compute each cell second by second."""
    first = begin - begin % length
    for device, path in naive.resources:
        for start in range(first, max(end, begin + 1), length):
            seconds = [second for second in range(start, start + length) if begin <= second < end]
            values = [naive.known(device, path, second) for second in seconds]
            known = [float(one) for one in values if one is not None]
            inside = [row for row in naive.values(device, path) if start <= row.at < start + length]
            inside = [row for row in inside if begin <= row.at < end]
            points = [float(row.value) for row in inside if readable(row.value) is not None]
            mean = sum(one / len(known) for one in known) if known else None
            extremes = min(known + points, default=None), max(known + points, default=None)
            last = known[-1] if known else None
            yield at(start), device, None, path, mean, last, *extremes, len(inside), len(known) / length


@settings(max_examples=40)
@given(histories(), st.sampled_from(LENGTHS), st.one_of(st.none(), st.integers(1, 12)), st.data())
def test_the_statistics_are_those_of_a_plain_computation(rows, length, limit, data):
    begin = data.draw(st.one_of(st.none(), st.integers(0, SECONDS)))
    end = data.draw(st.one_of(st.none(), st.integers(begin or 0, SECONDS + 10)))
    bounds = {name: at(one) for name, one in (("begin", begin), ("end", end)) if one is not None}
    found = frame_of(rows).mirror.resample(f"{length}s", ALL, silence_limit=limited(limit), **bounds)
    newest = max((row.at for row in rows), default=0)
    # Without an end, the newest row is requested too.
    last = newest + 1 if end is None else end
    first = min(last, *(row.at for row in rows), last) if begin is None else begin
    naive = Naive(rows, limit, newest if end is None else max(newest, end))
    expected = pd.DataFrame(naive_bins(naive, length, first, max(first, last)), columns=found.columns)
    pd.testing.assert_frame_equal(found, expected.astype(found.dtypes), rtol=1e-9, atol=1e-9, check_categorical=False)


def test_a_number_with_zero_duration_is_an_extreme_and_counts():
    rows = reports((0, 1.0), (5, 99.0), (5, 2.0))
    (cell,) = frame_of(rows).mirror.resample("10s", ALL, end=at(10)).to_dict("records")
    assert (cell["max"], cell["min"], cell["last"], cell["count"]) == (99.0, 1.0, 2.0, 3)
    assert cell["time_weighted_mean"] == 1.5
    # The mean of booleans is the share of true values.
    found = frame_of(reports((0, True), (4, False))).mirror.resample("10s", ALL, end=at(10))
    assert found["time_weighted_mean"].tolist() == [0.4]
    assert (found["last"].tolist(), found["last"].dtype) == ([False], "boolean")


def test_the_durations_of_each_value_are_summed_up():
    frame = frame_of([*reports((0, "on"), (4, "off"), (7, "on"), (12, None)), *reports((20, "off"))])
    found = frame.mirror.resample("10s", "duration", end=at(30), silence_limit="9s")
    assert list(zip(found["bin"], found["value"], found["duration"].dt.total_seconds(), strict=True)) == [
        (at(0), "off", 3.0),
        (at(0), "on", 7.0),
        (at(10), "on", 2.0),
        (at(20), "off", 9.0),
    ]
    assert found["covered"].tolist() == [1.0, 1.0, 0.2, 0.9]


@settings(max_examples=20)
@given(st.floats(allow_nan=False, allow_infinity=False), st.lists(st.integers(0, 10**9), min_size=1, max_size=9))
def test_the_mean_of_a_constant_is_the_constant(value, instants):
    rows = [Row("reported", "d1", TEMPERATURE, second, value, order=n) for n, second in enumerate(instants)]
    found = frame_of(rows).mirror.resample("1000000000s", end=at(10**9 + 7))
    assert set(found["time_weighted_mean"].dropna()) == {value}


# Changes that a user may make to the table


def test_the_order_of_the_rows_the_index_and_the_unit_of_times_make_no_difference():
    frame = frame_of([*reports((0, 1.0), (0, 2.0), (9, 3.0), (30, 4.0)), *reports((3, 5.0), device="d2")])
    expected = frame.mirror.resample("7s", ALL)
    shuffled = frame.sample(frac=1, random_state=4)
    shuffled.index = pd.Index([0] * len(frame))
    pd.testing.assert_frame_equal(shuffled.mirror.resample("7s", ALL), expected)
    finer = frame.assign(changed_at=frame["changed_at"].dt.as_unit("ns"))
    pd.testing.assert_frame_equal(finer.mirror.resample("7s", ALL), expected)


def test_a_history_is_unknown_after_its_end():
    metadata = {"taken_at": at(60).isoformat(), "end": at(40).isoformat(), "oldest_at": at(-60).isoformat()}
    frame = frame_of(reports((0, 1.0), (30, 4.0)), **metadata)
    assert frame.mirror.resample("20s", end=at(60))["covered"].tolist() == [1.0, 1.0, 0.0]
    without = frame_of(reports((0, 1.0)), **metadata | {"end": None})
    assert without.mirror.resample("1min", end=at(120))["covered"].tolist() == [1.0, 0.0]


def test_a_device_with_a_fast_clock_does_not_extend_the_history():
    metadata = {"taken_at": at(60).isoformat(), "end": None, "oldest_at": at(-60).isoformat()}
    rows = [*reports((0, 1.0), (60, 2.0)), *reports((30, 5.0), (10**9, 6.0), device="d2")]
    found = frame_of(rows, **metadata).mirror.resample("30s", ["count", "last"])
    assert found["count"].tolist() == [1, 0, 1, 0, 1, 0]
    assert found["last"].tolist() == [1.0, 1.0, pd.NA, pd.NA, 5.0, pd.NA]
    assert frame_of(rows, **metadata).mirror.unchanged("1s")["end"].max() == at(60)


def test_a_nonexistent_local_time_is_resolved_or_rejected():
    frame = frame_of(reports((0, 1.0), (9, 2.0)))
    times = pd.Series(np.array(["2026-03-02T12:00", "9999-12-31T23:59:59"], dtype="datetime64[ms]"))
    frame = frame.assign(changed_at=times.dt.tz_localize("UTC"))
    # pandas 3 supports no zone after the year 9999, pandas 2.2 does.
    is_known = pd.__version__.startswith("2.")
    message = r"outside the range that time zones support .*the clock of a device is wrong; pass begin= and end="
    with nullcontext() if is_known else pytest.raises(InvalidValue, match=message):
        assert frame.mirror.resample("365D", "count", tz="Europe/Berlin")["count"].sum() == 2
    assert len(frame.mirror.resample("365D", "count", begin=at(0), end=at(9), tz="Europe/Berlin")) == 1


def test_initial_values_come_from_earlier_rows_or_a_state_table():
    frame = frame_of(reports((-30, 7.0), (20, 9.0)))
    assert frame.mirror.resample("10s", ["last", "count"], begin=at(0)).iloc[0]["last"] == 7.0
    state = pd.DataFrame(
        {
            "device_id": ["d1", "d2"],
            "path": [TEMPERATURE] * 2,
            "reported_num": [5.0, 6.0],
            "reported_at": pd.to_datetime([at(-99), None], utc=True),
        }
    )
    later = frame_of(reports((20, 9.0)))
    found = later.mirror.resample("10s", ["last", "count"], begin=at(0), end=at(30), state=state)
    assert found["device_id"].unique().tolist() == ["d1"]
    assert found["last"].tolist() == [5.0, 5.0, 9.0]
    assert found["count"].tolist() == [0, 0, 1]
    # Its time is a contact, at which a silence may start.
    quiet = later.mirror.resample("10s", "last", begin=at(0), end=at(30), state=state, silence_limit="105s")
    assert quiet["last"].tolist() == [5.0, pd.NA, 9.0]
    assert quiet["covered"].tolist() == [0.6, 0.0, 1.0]
    # It is valid from its instant on, even if its times are later.
    later_state = state.assign(reported_at=pd.to_datetime([at(25), None], utc=True))
    later_state.attrs["mirror"] = {"taken_at": at(0).isoformat()}
    found = later.mirror.resample("10s", "last", begin=at(0), end=at(30), state=later_state)
    assert found["last"].tolist() == [5.0, 5.0, 9.0]


def test_bins_are_laid_out_with_a_column_for_each_resource():
    rows = [
        *reports((0, 1.0), (10, 2.0)),
        *reports((0, True), (20, False), device="d2", path="/3311/0/5850"),
    ]
    frame = frame_of(rows)
    one = frame.mirror.resample("10s", "last", begin=at(0), end=at(30)).mirror.wide()
    assert one.index.tolist() == [at(0), at(10), at(20)]
    assert one["d1", TEMPERATURE].tolist() == [1.0, 2.0, 2.0]
    assert one["d2", "/3311/0/5850"].tolist() == [1.0, 1.0, 0.0]
    two = frame.mirror.resample("10s", ["min", "count"], begin=at(0), end=at(30)).mirror.wide()
    assert two["count", "d1", TEMPERATURE].tolist() == [1, 1, 0]
    with pytest.raises(InvalidValue, match=r"several rows for a bin of a resource"):
        frame.mirror.resample("30s", "duration", begin=at(0), end=at(30)).mirror.wide()


# Units


def in_units(*values):
    """Return temperatures at seconds, each with its unit."""
    frame = frame_of(reports(*[(second, value) for second, value, _ in values]))
    return frame.assign(unit=pd.Categorical([unit for _, _, unit in values]))


SPAN = {"begin": at(0), "end": at(40)}
CHANGED = in_units((0, 20.0, "Cel"), (10, 22.0, "Cel"), (25, 68.0, "Far"), (40, 70.0, "Far"))


def test_numbers_of_two_units_have_no_mean():
    with pytest.warns(UnitWarning, match=r"5700 of d1 is in Cel and Far: .* Pass begin= and end="):
        found = CHANGED.mirror.resample("10s", ALL, **SPAN)
    assert found["time_weighted_mean"].tolist() == [20.0, 22.0, pd.NA, 68.0]
    assert found["min"].tolist() == found["max"].tolist() == [20.0, 22.0, pd.NA, 68.0]
    assert found["last"].tolist() == [20.0, 22.0, 68.0, 68.0]
    assert found["count"].tolist() == [1, 1, 1, 0]
    with pytest.warns(UnitWarning):
        side = CHANGED.mirror.align(on="10s", how="time_weighted_mean", **SPAN)
    assert side[TEMPERATURE].tolist() == [20.0, 22.0, pd.NA, 68.0]


def test_a_single_unit_causes_no_warning():
    found = CHANGED.mirror.resample("5s", begin=at(0), end=at(25))
    assert found["time_weighted_mean"].tolist() == [20.0, 20.0, 22.0, 22.0, 22.0]
    for unit in ("Cel", None):
        CHANGED.assign(unit=pd.Categorical([unit] * 4)).mirror.resample("10s")


def test_an_unknown_unit_is_another_unit():
    later_named = CHANGED.assign(unit=pd.Categorical([None, None, "Far", "Far"]))
    with pytest.warns(UnitWarning, match=r"5700 of d1 is in Far and an unknown unit: .* set the column unit"):
        found = later_named.mirror.resample("10s", ALL, **SPAN)
    assert found["time_weighted_mean"].tolist() == [20.0, 22.0, pd.NA, 68.0]
    with pytest.warns(UnitWarning):
        assert later_named.mirror.rates(TEMPERATURE)["increase"].tolist() == [2.0, 2.0]


def test_differences_and_thresholds_of_two_units_are_warned_of():
    with pytest.warns(UnitWarning):
        found = CHANGED.mirror.compare(at(10), at(30), "10s")
    assert (found["a"].tolist(), found["b"].tolist(), found["difference"].tolist()) == ([22.0], [68.0], [pd.NA])
    partly = in_units((0, 20.0, None), (20, 22.0, "Cel"), (30, 24.0, "Cel"))
    for begins in ((at(0), at(20)), (at(20), at(0))):
        with pytest.warns(UnitWarning):
            assert partly.mirror.compare(*begins, "10s")["difference"].tolist() == [pd.NA]
    with pytest.warns(UnitWarning, match="thresholds ignore the unit"):
        CHANGED.mirror.durations(TEMPERATURE, equals=68.0)
    rising = in_units((0, 20.0, "Cel"), (10, 22.0, "Cel"), (15, 68.0, "Far"), (20, 70.0, "Far"))
    with pytest.warns(UnitWarning):
        binned = rising.mirror.rates(TEMPERATURE, bin="20s", begin=at(0), end=at(20))
    assert binned["increase"].tolist() == [pd.NA]


# Events


def event(kind, second, value=None, *, seq, received=None, first=None, device="d1"):
    is_value = value is not None
    return Event(
        kind=kind,
        device_id=None if kind is EventKind.GAP else device,
        path=TEMPERATURE if is_value else None,
        value=decode(value.encode(), "text/plain", TEMPERATURE) if is_value else None,
        changed_at=None if second is None else at(second),
        received_at=at((second if received is None else received) or 0),
        seq=seq,
        first_seq=first,
    )


def test_events_give_the_same_result_as_a_history():
    events = events_frame(
        [
            event(EventKind.REGISTRATION, 0, seq=1),
            event(EventKind.OBSERVATION, 10, "20", seq=2),
            event(EventKind.EXPIRED, 20, seq=3),
            event(EventKind.REGISTRATION, 40, seq=4),
            event(EventKind.OBSERVATION, 50, "22", seq=5),
            # The event arrived late.
            event(EventKind.OBSERVATION, 5, "10", seq=6, received=60),
            # The response to a read contains a value, that to a write does not.
            event(EventKind.ASYNC_RESPONSE, 55, "24", seq=7),
            event(EventKind.ASYNC_RESPONSE, 60, seq=8),
        ]
    )
    for table in (events, events.drop(columns="value_kind"), history_frame(events)):
        found = table.mirror.resample("10s", ["time_weighted_mean", "count"], end=at(60))
        assert found["time_weighted_mean"].tolist() == [10.0, 20.0, pd.NA, pd.NA, pd.NA, 23.0]
        assert found["covered"].tolist() == [0.5, 1.0, 0.0, 0.0, 0.0, 1.0]
        assert found["count"].tolist() == [1, 1, 0, 0, 0, 2]


@pytest.mark.parametrize(("first", "received"), [(3, 70), (None, 50)])
def test_no_value_is_carried_across_a_loss_of_events(first, received):
    events = [
        event(EventKind.OBSERVATION, 10, "20", seq=1, received=40),
        event(EventKind.OBSERVATION, 30, "21", seq=2, received=40),
        # It arrived with the later entries.
        event(EventKind.GAP, None, seq=5, first=first, received=received),
        event(EventKind.OBSERVATION, 50, "22", seq=6, received=70, device="d2"),
        event(EventKind.OBSERVATION, 60, "23", seq=7, received=70),
        event(EventKind.OBSERVATION, 80, "23", seq=8, received=80),
    ]
    found = events_frame(events).mirror.resample("10s")
    by_device = {device: rows["covered"].tolist() for device, rows in found.groupby("device_id", observed=True)}
    assert by_device == {"d1": [1, 1, 0, 0, 0, 1, 1, 0], "d2": [0, 0, 0, 0, 1, 1, 1, 0]}
    backwards = events_frame(events).iloc[::-1]
    pd.testing.assert_frame_equal(backwards.mirror.resample("10s"), found)
    assert events_frame([events[2]]).mirror.resample("10s").empty


def test_no_value_is_carried_across_a_gap_without_a_start():
    frame = frame_of([*reports((0, 1.0), (10, 2.0), (40, 3.0)), Row("gap", None, None, 0, until=30)])
    frame.loc[frame["event"] == "gap", "changed_at"] = pd.NaT
    assert frame.mirror.resample("10s", end=at(50))["covered"].tolist() == [1, 0, 0, 0, 1]
    assert frame.mirror.gaps(end=at(50))["begin"].tolist() == [at(10)]


# Zones


@pytest.mark.parametrize(
    ("zone", "begin", "span", "hours"),
    [
        ("Europe/Berlin", "2026-03-28T23:00Z", 1.5, [1.5, 0.5, 1.5]),
        # Clocks are set back by a full bin, so its hour occurs twice.
        ("Europe/Berlin", "2026-10-24T22:00Z", 1, [1] * 6),
        ("Asia/Kathmandu", "2026-03-28T18:15Z", 24, [24]),
        # Midnight occurs twice, or not at all.
        ("Atlantic/Azores", "2026-10-25T00:00Z", 24, [25]),
        ("America/Havana", "2026-11-01T04:00Z", 12, [13, 12]),
        ("America/Sao_Paulo", "2017-10-14T03:00Z", 24, [24, 23]),
        # At one minute past midnight.
        ("America/St_Johns", "2010-03-14T02:30Z", 1, [1, 1 / 60, 59 / 60, 1]),
        # By half an hour, by two hours, and by a day.
        ("Australia/Lord_Howe", "2026-04-04T12:00Z", 1, [1, 1, 1.5, 1]),
        ("Antarctica/Troll", "2026-10-24T22:00Z", 24, [26]),
        ("Pacific/Apia", "2011-12-29T10:00Z", 24, [24, 24]),
    ],
)
def test_bins_at_a_change_of_the_clock(zone, begin, span, hours):
    first = int(datetime.fromisoformat(begin).timestamp() * 1000)
    bins = bins_of(int(span * HOUR), first, first + int(sum(hours) * HOUR), zone)
    assert bins.edges[0] == first
    assert (bins.lengths / HOUR).tolist() == hours


def test_days_of_a_zone_have_23_or_25_hours():
    begin = datetime(2026, 10, 24, 22, tzinfo=UTC)
    rows = frame_of(reports((0, 1.0))).assign(changed_at=pd.to_datetime([begin], utc=True))
    options = {"bin": "1D", "how": "count", "end": begin + timedelta(hours=25)}
    found = rows.mirror.resample(**options, tz="Europe/Berlin")
    assert [str(one) for one in found["bin"]] == ["2026-10-25 00:00:00+02:00"]
    assert found["covered"].tolist() == [1.0]
    # Bins are in the zone of the table.
    pd.testing.assert_frame_equal(rows.mirror.in_zone("Europe/Berlin").mirror.resample(**options), found)


# Invalid input


def test_texts_have_no_mean_and_cannot_be_mixed_with_numbers():
    frame = frame_of(
        [
            *reports((0, 1.0)),
            *reports((0, "abc"), path="/3/0/0"),
            *reports((0, True), path="/3311/0/5850"),
        ]
    )
    with pytest.raises(
        InvalidValue, match=r"needs numbers or booleans, but /3/0/0 has strings; exclude it with paths="
    ):
        frame.mirror.resample("1s")
    with pytest.raises(InvalidValue, match=r"/3/0/0 has strings, but .* has other values.* of one kind"):
        frame.mirror.resample("1s", "last")
    assert frame.mirror.resample("1s", "count")["count"].tolist() == [1, 1, 1]
    assert frame.mirror.resample("1s", "last", paths=["/3/*"], end=at(1))["last"].tolist() == ["abc"]
    assert frame.mirror.resample("1s", "last", paths=["/33*"], end=at(1))["last"].tolist() == [1.0, 1.0]


def test_a_table_without_events_or_values_or_with_text_times_is_rejected():
    frame = frame_of(reports((0, 1.0)))
    with pytest.raises(InvalidValue, match=r"lacks the column device_id; use a table of client.history"):
        frame.drop(columns="device_id").mirror.resample("1s")
    for wrong, message in (
        (frame.drop(columns="event"), "lacks the column event"),
        (
            frame.drop(columns=["value_num", "value_bool", "value_text"]),
            "lacks the columns value_num, value_bool, value_",
        ),
        (
            frame.assign(changed_at=frame["changed_at"].astype(str)),
            "the column changed_at has .* instead of times",
        ),
        (frame.assign(value_num="warm"), "the column value_num has .* instead of numbers"),
        (pd.concat([frame, frame[["path"]]], axis=1), "has the column path more than once"),
    ):
        with pytest.raises(InvalidValue, match=message):
            wrong.mirror.resample("1s")


def test_many_resources_together_equal_each_alone():
    devices = [f"d{number}" for number in range(7)]
    rows = [
        row for n, device in enumerate(devices) for row in reports((n, 1.0), (n + 9, 2.0), (30 - n, n), device=device)
    ]
    frame = frame_of(rows).sample(frac=1, random_state=2)
    options = {"begin": at(0), "end": at(40)}
    for how in (["time_weighted_mean", "count"], "duration"):
        together = frame.mirror.resample("1s", how, **options)
        alone = [frame[frame["device_id"] == device].mirror.resample("1s", how, **options) for device in devices]
        expected = pd.concat([one.astype({"device_id": object}) for one in alone], ignore_index=True)
        pd.testing.assert_frame_equal(together.astype({"device_id": object}), expected)
