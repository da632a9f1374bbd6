"""Conditions: their text, and their evaluation on rows, in tables and in steps."""

import json
import math
from dataclasses import replace
from datetime import timedelta

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_history import BEGIN, DEVICES, PATHS, frame_of, histories
from reference_history import Row as HistoryRow
from resource_paths import HUMIDITY, SWITCH, TEMPERATURE

from mirror_sdk import Condition, ConditionWarning, EmptyTableWarning, InvalidValue
from mirror_sdk.conditions.alarm import AlarmKind
from mirror_sdk.conditions.evaluator import Evaluator, Row, RowKind

HOT = Condition(TEMPERATURE, above=25)
ABSENT, GAP, GAP_END = (Row(0, kind, "d") for kind in (RowKind.ABSENT, RowKind.GAP, RowKind.GAP_END))

TEXTS = {
    "/3303/0/5700 > 25 for 10min until below 24": Condition(TEMPERATURE, above=25, for_="10min", until_below=24),
    "/3303/*/5700 < 5.5 until above 6": Condition("/3303/*/5700", below=5.5, until_above=6),
    '/3311/0/5850 = "on"': Condition(SWITCH, equals="on"),
    '/3311/0/5850 = "\\"5\\" & (é)"': Condition(SWITCH, equals='"5" & (é)'),
    "/3311/0/5850 = true for 1h30min": Condition(SWITCH, equals=True, for_=timedelta(hours=1.5)),
    "/3311/0/5850 = 5": Condition(SWITCH, equals=5),
    "/3303/0/5700 outside -10..20.5 for 2d3h4min5s6ms": Condition(
        TEMPERATURE, outside=(-10, 20.5), for_=timedelta(days=2, hours=3, minutes=4, seconds=5, milliseconds=6)
    ),
    "/3303/* changed": Condition("/3303/*", changed=True),
    "/3303/0/5700 silent for 1h": Condition(TEMPERATURE, silent_for="1h"),
    "/3303/0/5700 differs from desired for 5min": Condition(TEMPERATURE, differs_from_desired_for="300s"),
    "/3303/0/5700 > 25 & /3304/0/5700 < 30 & /3311/0/5850 = true": HOT
    & Condition(HUMIDITY, below=30)
    & Condition(SWITCH, equals=True),
    "/3303/0/5700 > 25 | /3304/0/5700 < 30": HOT | Condition(HUMIDITY, below=30),
    "(/3303/0/5700 > 25 | /3304/0/5700 changed) & /3304/0/5700 < 30": (HOT | Condition(HUMIDITY, changed=True))
    & Condition(HUMIDITY, below=30),
}


@pytest.mark.parametrize("text", TEXTS)
def test_text_form_and_condition_convert_into_each_other(text):
    assert (str(TEXTS[text]), Condition.parse(text)) == (text, TEXTS[text])
    assert hash(Condition.parse(text)) == hash(TEXTS[text])


@pytest.mark.parametrize(
    ("text", "equal"),
    [
        ("/3311/0/5850 = on", '/3311/0/5850 = "on"'),
        ("/3303/0/5700>25 for 90m", "/3303/0/5700 > 25 for 1h30min"),
        ("/3303/0/5700 > 25 for 90 min", "/3303/0/5700 > 25 for 1h30min"),
        ("/3303/0/5700 > 25 for 1 hour 30 minutes", "/3303/0/5700 > 25 for 1h30min"),
        ("/3303/0/5700 silent for 10mins", "/3303/0/5700 silent for 10min"),
        ("/3303/0/5700 > 25 until below 24 for 2 Days", "/3303/0/5700 > 25 for 2d until below 24"),
        ("/3303/0/5700 > 25 | /3304/0/5700 < 5 & /3304/0/5700 changed", None),
    ],
)
def test_text_form_accepts_variants(text, equal):
    assert Condition.parse(text) == Condition.parse(equal or text.replace("| ", "| (") + ")")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "the test is missing: pass one of above="),
        ({"above": 1, "below": 0}, "above= and below= cannot be combined"),
        ({"above": "25"}, "above='25' is not a number"),
        ({"above": math.nan}, "above=nan is not a number"),
        ({"above": 25, "for_": "-10min"}, "for_='-10min' is not a duration"),
        ({"above": 25, "for_": "10M"}, "for_='10M' is not a duration"),
        ({"above": 25, "for_": "10 parsec"}, "with the units ms, s, min"),
        ({"above": 25, "for_": "3000000d"}, "at most 36500 days"),
        ({"above": 10**400}, "is not a number"),
        ({"equals": 10**400}, "must be a number"),
        ({"above": 25, "for_": timedelta(-1)}, "is not a duration"),
        ({"above": 25, "for_": "0s"}, "must be a millisecond or longer"),
        ({"above": 25, "until_below": 25}, "until_below=25 must be less than above=25"),
        ({"below": 25, "until_above": 25}, "until_above=25 must be more than below=25"),
        ({"above": 25, "until_above": 30}, "until_above=30 cannot be combined with above=; it applies to below="),
        ({"silent_for": "1h", "until_below": 30}, "until_below=30 cannot be combined with silent_for="),
        ({"outside": (20, 10)}, "must have the lower limit first"),
        ({"outside": 10}, "must be two numbers"),
        ({"equals": object()}, "must be a number, a boolean or a string"),
        ({"changed": True, "for_": "1h"}, "because a change has no duration"),
        ({"changed": "yes"}, "must be True or False"),
        ({"silent_for": "1h", "for_": "1h"}, "for_='1h' cannot be combined with silent_for="),
        ({"path": "3303/0/5700", "above": 1}, "path='3303/0/5700' is not a resource path"),
    ],
)
def test_invalid_argument_is_rejected(arguments, message):
    with pytest.raises(InvalidValue) as raised:
        Condition(**{"path": TEMPERATURE} | arguments)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a path such as /3303/0/5700, found the end"),
        ("/3303/0/5700", "expected > or < or = or outside or changed or silent or differs, found the end"),
        ("/3303/0/5700 >= 25", "found '>='"),
        ("/3303/0/5700 > hot", "expected a number, found 'hot'"),
        ("/3303/0/5700 > 25 for", "expected more text, found the end"),
        ("/3303/0/5700 > 25 for 10parsec", ": for '10parsec' is not a duration"),
        ("/3303/0/5700 > 25 for 10 parsec", ": for '10 parsec' is not a duration"),
        ("/3303/0/5700 > 25 until below 26", ": until below 26.0 must be less than > 25"),
        ("/3303/0/5700 outside 10", "write one like '/3303/0/5700 outside 10..20'"),
        ("/3303/0/5700 silent", "write one like '/3303/0/5700 silent for 1h'"),
        ("/3303/0/5700 > 25 until", "write one like '/3303/0/5700 > 25 until below 24'"),
        ("/3303/0/5700 > 25 for 1h for 2h", "expected the end, & or |, found 'for'"),
        ("(" * 300, "expected at most 50 nested parentheses"),
        ("/3303/0/5700 > 25 now", "expected the end, & or |, found 'now'"),
        ("/3303/0/5700 outside 10", "expected two limits such as 10..20"),
        ("(/3303/0/5700 > 25", "expected ), found the end"),
        ("/3303/0/5700 > 25 &", "expected a path"),
        ('/3303/0/5700 = "\\q"', "is not valid JSON"),
        ("temperature > 25", "found 'temperature'"),
    ],
)
def test_invalid_text_is_rejected(text, message):
    with pytest.raises(InvalidValue) as raised:
        Condition.parse(text)
    assert message in str(raised.value)


def test_condition_is_neither_true_nor_false():
    with pytest.raises(TypeError, match="combine conditions with &"):
        bool(HOT and HOT)
    with pytest.raises(InvalidValue, match="is not a Condition"):
        HOT & "hot"


def _report(value, path=TEMPERATURE):
    return Row(0, RowKind.REPORTED, "d", path, value)


def _desire(value):
    return Row(0, RowKind.DESIRED, "d", TEMPERATURE, value)


def _changes(evaluator, rows, end):
    found = [change for row in rows for change in evaluator.feed(row)]
    return [*found, *evaluator.advance(end)]


STREAMS = {
    # (condition, rows by second, expected: kind, at, begin, extreme, hidden, gap), all in seconds
    "above": (
        HOT,
        {0: _report(20.0), 10: _report(26.0), 20: _report(27.0), 30: _report(25.0)},
        [("started", 10, 10, 26, 0, False), ("ended", 30, 10, 27, 0, False)],
    ),
    "until": (
        Condition(TEMPERATURE, below=5, until_above=6),
        {0: _report(5.0), 10: _report(4.0), 20: _report(3.0), 30: _report(6.0), 40: _report(6.5)},
        [("started", 10, 10, 4, 0, False), ("ended", 40, 10, 3, 0, False)],
    ),
    "until does not apply before the start": (
        Condition(TEMPERATURE, above=25, until_below=24, for_="20s"),
        {0: _report(20.0), 10: _report(26.0), 20: _report(24.5), 30: _report(26.0), 60: _report(24.5)},
        [("started", 50, 30, 26, 0, False)],
    ),
    "a value at the deadline counts after it": (
        Condition(TEMPERATURE, above=25, for_="20s"),
        {0: _report(20.0), 10: _report(26.0), 30: _report(20.0)},
        [("started", 30, 10, 26, 0, False), ("ended", 30, 10, 26, 0, False)],
    ),
    "unknown time does not count toward the duration": (
        Condition(TEMPERATURE, above=25, for_="20s"),
        {0: _report(26.0), 10: ABSENT, 40: _report(26.0), 60: _report(20.0)},
        [("started", 50, 0, 26, 30, True), ("ended", 60, 0, 26, 30, True)],
    ),
    "a gap neither ends nor starts": (
        HOT,
        {0: _report(20.0), 10: _report(26.0), 20: GAP, 30: GAP_END, 40: _report(20.0), 50: GAP, 60: _report(30.0)},
        [("started", 10, 10, 26, 0, False), ("ended", 40, 10, 26, 20, True), ("started", 60, 60, 30, 0, True)],
    ),
    "outside": (
        Condition(TEMPERATURE, outside=(10, 20)),
        {0: _report(15.0), 10: _report(8.0), 20: _report(25.0), 30: _report(20.0)},
        [("started", 10, 10, 8, 0, False), ("ended", 30, 10, 25, 0, False)],
    ),
    "equals": (
        Condition(TEMPERATURE, equals="on"),
        {0: _report("off"), 10: _report("on"), 20: _report(None), 30: _report("off")},
        [("started", 10, 10, None, 0, False), ("ended", 30, 10, None, 10, True)],
    ),
    "changed": (
        Condition(TEMPERATURE, changed=True),
        {
            0: _report(1.0),
            10: _report(1.0),
            20: _report("1"),
            30: ABSENT,
            40: _report("1"),
            50: ABSENT,
            60: _report(2.0),
        },
        [
            ("started", 20, 20, None, 0, False),
            ("ended", 20, 20, None, 0, False),
            ("started", 60, 60, None, 0, True),
            ("ended", 60, 60, None, 0, True),
        ],
    ),
    "silent, also while the device is absent": (
        Condition(TEMPERATURE, silent_for="30s"),
        {0: _report(1.0), 20: _report(1.0), 30: ABSENT, 75: _report(None)},
        [("started", 50, 20, None, 0, False), ("ended", 75, 20, None, 0, False)],
    ),
    "a silence may have been interrupted in a gap": (
        Condition(TEMPERATURE, silent_for="30s"),
        {0: _report(1.0), 20: GAP, 50: GAP_END},
        [("started", 60, 0, None, 30, True)],
    ),
    "a silence counts from the report in a state": (
        Condition(TEMPERATURE, silent_for="30s"),
        {
            50: _report(1.0)._replace(since=10_000),
            55: GAP,
            60: GAP_END,
            61: _report(1.0)._replace(since=10_000),
            70: _report(2.0)._replace(since=65_000),
        },
        [("started", 50, 10, None, 0, True), ("ended", 70, 10, None, 5, True), ("started", 95, 65, None, 0, False)],
    ),
    "differs from desired": (
        Condition(TEMPERATURE, differs_from_desired_for="20s"),
        {0: _report(1.0), 10: _desire(2.0), 20: _desire(3.0), 30: _desire(3.0), 50: _report(3.0)},
        [("started", 40, 20, None, 0, False), ("ended", 50, 20, None, 0, False)],
    ),
    "a combination": (
        HOT & Condition("/3304/*/5700", below=30),
        {
            0: _report(26.0),
            10: _report(40.0, HUMIDITY),
            20: _report(20.0, "/3304/1/5700"),
            30: _report(10.0, HUMIDITY),
            40: _report(40.0, "/3304/1/5700"),
            50: _report(20.0),
        },
        [("started", 20, 20, None, 0, False), ("ended", 50, 20, None, 0, False)],
    ),
    "false and unknown is false, true or unknown is true": (
        (HOT | Condition(HUMIDITY, below=30)) & Condition(SWITCH, equals=True),
        {0: _report(False, SWITCH), 10: _report(True, SWITCH), 20: _report(26.0), 30: _report(False, SWITCH)},
        [("started", 20, 20, None, 0, True), ("ended", 30, 20, None, 0, True)],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_evaluation(name):
    condition, rows, expected = STREAMS[name]
    found = _changes(
        Evaluator([condition.expression]), [row._replace(at=1000 * at) for at, row in rows.items()], 100_000
    )
    assert [
        (change.kind.value, change.at / 1000, change.begin / 1000, change.extreme, change.hidden / 1000, change.gap)
        for change in found
    ] == expected


def test_only_reported_values_are_checked_for_their_type():
    evaluator = Evaluator([HOT.expression])
    list(evaluator.feed(_desire("hot")))
    assert evaluator.mismatches == []
    list(evaluator.feed(_report("hot")))
    assert [one.value for one in evaluator.mismatches] == ["hot"]


def test_row_from_the_past_counts_now():
    evaluator = Evaluator([HOT.expression])
    list(evaluator.advance(5000))
    assert [change.at for change in evaluator.feed(_report(30.0))] == [5000]


def test_intervals_that_begin_together_have_different_ids():
    evaluator = Evaluator([HOT.expression])
    found = _changes(evaluator, [_report(value) for value in (30.0, 20.0, 30.0, 20.0)], 0)
    ids = [evaluator.alarm_id(change) for change in found]
    assert ids[0] == ids[1] != ids[2] == ids[3]


CONDITIONS = [
    Condition("/3303/*/5700", above=0),
    Condition(PATHS[0], above=0, for_="4s", until_below=-1),
    Condition(PATHS[0], outside=(-1, 1), for_="3s"),
    Condition(PATHS[1], changed=True),
    Condition("/3303/*/5700", silent_for="5s"),
    Condition("/3303/*/5700", above=0, for_="2s") & Condition(PATHS[1], below=1),
    Condition(PATHS[0], above=1) | Condition(PATHS[1], silent_for="3s"),
]


@st.composite
def streams(draw):
    """Generate rows in the order of time, in seconds, and a later end."""
    value = st.sampled_from([-2.0, -0.5, 0.0, 0.1, 1.5, "text", None])
    row = st.one_of(
        *[
            st.builds(
                Row,
                st.integers(0, 60),
                st.just(RowKind.REPORTED),
                st.sampled_from(DEVICES),
                st.sampled_from(PATHS),
                value,
            )
        ]
        * 4,
        st.builds(
            Row,
            st.integers(0, 60),
            st.sampled_from([RowKind.ABSENT, RowKind.GAP, RowKind.GAP_END]),
            st.sampled_from([None, *DEVICES]),
        ),
    )
    rows = [one for one in draw(st.lists(row, max_size=40)) if one.device or one.kind is not RowKind.ABSENT]
    return [one._replace(at=1000 * one.at) for one in sorted(rows, key=lambda one: one.at)], 70_000


@given(streams(), st.data())
def test_steps_and_restarts_change_nothing(stream, data):
    rows, end = stream
    expected = _changes(Evaluator([one.expression for one in CONDITIONS]), rows, end)
    found, evaluator = [], Evaluator([one.expression for one in CONDITIONS])
    for row in rows:
        for action in data.draw(st.lists(st.sampled_from(["restart", "advance", "wait"]), max_size=2)):
            if action == "restart":
                restarted = Evaluator([one.expression for one in CONDITIONS])
                restarted.load(json.loads(json.dumps(evaluator.dump())))
                assert restarted.next_deadline == evaluator.next_deadline
                evaluator = restarted
            elif action == "advance":
                # All rows up to this time are known.
                found += evaluator.advance(data.draw(st.integers(min(evaluator.now, row.at), row.at)))
            elif (deadline := evaluator.next_deadline) is not None and deadline <= row.at:
                found += evaluator.advance(deadline)
        found += evaluator.feed(row)
    assert [*found, *evaluator.advance(end)] == expected


def _naive(rows, end, above, until, duration):
    """Yield the intervals of ``above`` and ``until_below``, second by second: started, begin, end, hidden."""
    state = begin = started = None
    known = hidden = 0
    for second in range(end + 1):
        known += state is True
        hidden += state is None and begin is not None
        if state and started is None and known >= duration:
            started = second
        for row in (one for one in rows if one.at == 1000 * second):
            value = row.value if row.kind is RowKind.REPORTED and isinstance(row.value, float) else None
            if row.kind is RowKind.GAP_END:
                continue
            state = None if value is None else value >= until if started is not None else value > above
            if state and begin is None:
                begin, known, hidden = second, 0, 0
            if state is False:
                if started is not None:
                    yield started, begin, second, hidden
                begin = started = None
    if started is not None:
        yield started, begin, None, hidden


@given(streams(), st.integers(1, 6))
def test_evaluation_equals_the_reference(stream, duration):
    condition = Condition(PATHS[0], above=0, until_below=-1, for_=f"{duration}s")
    of_resource = [one for one in stream[0] if one.device in (None, "d1") and one.path in ("", PATHS[0])]
    # One row per second: the reference does not evaluate states without a duration.
    rows = list({one.at: one for one in of_resource}.values())
    started, found = None, []
    evaluator = Evaluator([condition.expression])
    for change in [*_changes(evaluator, rows, 70_000), *evaluator.open_intervals()]:
        if change.kind is AlarmKind.ENDED:
            found.append((started.at // 1000, change.begin // 1000, change.at // 1000, change.hidden // 1000))
        elif change.at == 70_000 and started is not None and started.begin == change.begin:
            found.append((started.at // 1000, change.begin // 1000, None, change.hidden // 1000))
        else:
            started = change
    assert found == list(_naive(rows, 70, 0, -1, duration))


@pytest.mark.filterwarnings("ignore::mirror_sdk.EmptyTableWarning")
@given(histories(), st.sampled_from(CONDITIONS), st.data())
def test_intervals_of_a_history_equal_the_evaluation_of_its_rows(history, condition, data):
    rows = [row for row in history if not isinstance(row.value, float) or not math.isnan(row.value)]
    frame = frame_of(rows).iloc[data.draw(st.permutations(range(len(rows))))]
    found = condition.intervals(frame, by="changed_at")
    evaluator = Evaluator([condition.expression])
    origin = int(BEGIN.timestamp() * 1000)
    fed = sorted(_evaluated(rows, origin), key=lambda one: one[:3])
    end = origin + 1000 * max((row.at for row in rows), default=0)
    changes = _changes(evaluator, [row for *_, row in fed if row.at <= end], end)
    assert found["id"].tolist() == [
        evaluator.alarm_id(one)
        for one in sorted(
            [*(one for one in changes if one.kind is AlarmKind.ENDED), *evaluator.open_intervals()],
            key=lambda one: (one.device, one.path or "", one.begin),
        )
    ]


def _evaluated(rows: list[HistoryRow], origin: int):
    kinds = {"reported": RowKind.REPORTED, "gap": RowKind.GAP} | dict.fromkeys(
        ("deregistration", "expired"), RowKind.ABSENT
    )
    for row in rows:
        if row.what in kinds and row.until != row.at:
            at = origin + 1000 * row.at
            rank = 1 if row.what == "gap" else 0
            yield at, rank, row.order, Row(at, kinds[row.what], row.device, row.path or "", row.value)
            if row.what == "gap" and row.until is not None:
                until = origin + 1000 * row.until
                yield until, -1, row.order, Row(until, RowKind.GAP_END, row.device)


def _history(*rows, **attributes):
    return frame_of([replace(HistoryRow(*one), order=order) for order, one in enumerate(rows)], **attributes)


@pytest.mark.filterwarnings("ignore::mirror_sdk.EmptyTableWarning")
@given(histories(), st.sampled_from(CONDITIONS))
def test_spans_of_a_history_are_the_parts_of_its_intervals(history, condition):
    frame = frame_of([row for row in history if not isinstance(row.value, float) or not math.isnan(row.value)])
    found = condition.intervals(frame, by="changed_at")
    found["met"] = found["duration"] - (found["started_at"] - found["begin"])
    spans = condition.spans(frame)
    groups = {
        (device, None if pd.isna(path) else path): rows
        for (device, path), rows in found.groupby(["device_id", "path"], observed=True, dropna=False)
    }
    assert {key for key, parts in spans.items() if parts} == set(groups)
    for key, rows in groups.items():
        known, unknown = (
            sum(end - begin for begin, end, is_known in spans[key] if is_known == state) for state in (True, False)
        )
        assert pd.Timedelta(known + unknown, "ms") == rows["met"].sum()
        assert {begin for begin, _, is_known in spans[key] if is_known} >= {
            int(one.timestamp() * 1000) for one in rows["started_at"]
        }
        hidden = rows["hidden"].sum()
        assert pd.Timedelta(unknown, "ms") == hidden or (rows["started_at"] > rows["begin"]).any()


def test_intervals_table():
    history = _history(
        ("reported", "d1", TEMPERATURE, 0, 20.0),
        ("reported", "d1", TEMPERATURE, 10, 26.0),
        ("gap", None, None, 15, None, 18),
        ("reported", "d1", TEMPERATURE, 20, 27.0),
        ("reported", "d1", TEMPERATURE, 40, 20.0),
        ("reported", "d1", TEMPERATURE, 50, 30.0),
        ("reported", "d1", HUMIDITY, 60, 30.0),
        taken_at="2026-03-02T12:01:10Z",
        oldest_at="2026-03-02T12:00:00Z",
    )
    found = Condition(TEMPERATURE, above=25, for_="10s").intervals(history)
    columns = ["device_id", "path", "extreme", "gap"]
    assert found[columns].values.tolist() == [["d1", TEMPERATURE, 27.0, True], ["d1", TEMPERATURE, 30.0, False]]
    spans = found[["duration", "hidden"]].map(lambda one: one.total_seconds())
    assert spans.values.tolist() == [[30.0, 5.0], [20.0, 0.0]]
    times = found[["begin", "started_at", "end"]].map(lambda one: -1 if pd.isna(one) else (one - BEGIN).seconds)
    assert times.values.tolist() == [[10, 25, 40], [50, 60, -1]]


def test_intervals_with_a_period_and_a_state():
    history = _history(("reported", "d1", TEMPERATURE, 10, 20.0), ("reported", "d1", TEMPERATURE, 20, 30.0))
    state = pd.DataFrame(
        {
            "device_id": ["d1"],
            "path": [TEMPERATURE],
            "reported_at": [BEGIN],
            "reported_num": [26.0],
            "desired_num": [30.0],
        }
    )
    found = HOT.intervals(history, state=state, begin=BEGIN)
    assert [(one - BEGIN).seconds for one in found["begin"]] == [0, 20]
    assert HOT.intervals(history, state=state, begin=BEGIN + timedelta(seconds=11))["gap"].tolist() == [False]
    differs = Condition(TEMPERATURE, differs_from_desired_for="5s")
    assert differs.intervals(history, state=state, begin=BEGIN)["duration"].tolist() == [pd.Timedelta("20s")]


def _state(second, reported_at=0, value=26.0):
    state = pd.DataFrame({"device_id": ["d1"], "path": [TEMPERATURE], "reported_num": [value]})
    state["reported_at"] = BEGIN + timedelta(seconds=reported_at)
    state.attrs["mirror"] = {"taken_at": (BEGIN + timedelta(seconds=second)).isoformat()}
    return state


def test_state_counts_from_its_own_time():
    history = _history(("reported", "d1", TEMPERATURE, 20, 27.0), ("reported", "d1", TEMPERATURE, 30, 20.0))
    (found,) = HOT.intervals(history, state=_state(5)).to_dict("records")
    assert [(found[name] - BEGIN).seconds for name in ("begin", "end")] == [5, 30]
    with pytest.raises(InvalidValue, match=r"from 2026-03-02T12:00:21\S*, after the start of the table at .*12:00:20"):
        HOT.intervals(history, state=_state(21))


def test_silence_counts_from_the_report_in_the_state():
    history = _history(("reported", "d1", TEMPERATURE, 80, 27.0))
    silent = Condition(TEMPERATURE, silent_for="50s")
    (found,) = silent.intervals(history, state=_state(60, reported_at=3)).to_dict("records")
    assert [(found[name] - BEGIN).seconds for name in ("begin", "started_at", "end")] == [3, 60, 80]
    assert found["gap"]
    (found,) = silent.intervals(history, state=_state(40, reported_at=3)).to_dict("records")
    assert [(found[name] - BEGIN).seconds for name in ("begin", "started_at", "end")] == [3, 53, 80]


def test_intervals_of_a_path_without_rows_warn():
    history = _history(("reported", "d1", TEMPERATURE, 0, 30.0))
    with pytest.warns(EmptyTableWarning, match=f"no row of the table has {HUMIDITY}; "):
        assert Condition(HUMIDITY, above=1).intervals(history).empty


def test_intervals_of_another_object_are_rejected():
    with pytest.raises(TypeError, match=r"not Table; pass recording.history\(\) for a recording"):
        HOT.intervals(pa.table({}))


def test_late_value_counts_from_its_receipt():
    history = _history(
        ("reported", "d1", TEMPERATURE, 5, 30.0, None, 0, 20), ("reported", "d1", TEMPERATURE, 30, 20.0, None, 0, 30)
    ).drop(columns="revision")
    for by, begin in (("received_at", 20), ("changed_at", 5)):
        assert [(one - BEGIN).seconds for one in HOT.intervals(history, by=by)["begin"]] == [begin]
    with pytest.raises(InvalidValue, match="by='at' must be 'received_at' or 'changed_at'"):
        HOT.intervals(history, by="at")


def test_test_that_does_not_apply_to_a_value_is_unknown_and_warns_once():
    history = _history(
        ("reported", "d1", TEMPERATURE, 0, 30.0),
        ("reported", "d1", TEMPERATURE, 10, "broken"),
        ("reported", "d1", TEMPERATURE, 20, "broken"),
        ("reported", "d1", TEMPERATURE, 30, 20.0),
    )
    with pytest.warns(ConditionWarning, match="does not apply to 'broken'") as warned:
        found = HOT.intervals(history)
    assert len(warned) == 1
    assert found["hidden"].tolist() == [pd.Timedelta("20s")]
