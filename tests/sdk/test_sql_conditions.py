"""The conditions that are derived from the filters of DuckDB. They never exclude a row that the filter includes."""

import math
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_sdk.sql.conditions import (
    conditions_of,
    expression_of,
    patterns_of,
    period_of,
    points_of,
    text_after,
    text_of,
)

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
TEXTS = [
    "",
    "/",
    "/3303/0/5700",
    "/3303/0/5701",
    "/3303/1/5700",
    "/33030",
    "a",
    "it's",
    'a "quoted"\n: text',
    "ä",
    None,
]
TIMES = [BEGIN + timedelta(milliseconds=step) for step in range(4)] + [None]
ROWS = pa.table(
    {
        "path": pa.array([text for text in TEXTS for _ in TIMES], pa.string()).dictionary_encode(),
        "changed_at": pa.array([time for _ in TEXTS for time in TIMES], pa.timestamp("ms", "UTC")),
    }
)


OPERATORS = ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]


def compared(name, values):
    one = st.sampled_from([value for value in values if value is not None])
    single = st.builds(
        lambda operator, value: getattr(pc.field(name), operator)(value), st.sampled_from(OPERATORS), one
    )
    several = st.builds(lambda chosen: pc.field(name).isin(chosen), st.lists(one, min_size=1))
    checked = several.map(lambda found: pc.if_else(pc.field(name).is_valid(), found, None))
    return st.one_of(single, several, checked, st.just(pc.field(name).is_null()))


ranges = st.builds(
    lambda above, low, below, high: (
        getattr(pc.field("path"), above)(low) & getattr(pc.field("path"), below)(text_after(high) or high)
    ),
    st.sampled_from(["__gt__", "__ge__"]),
    st.sampled_from(TEXTS[:-1]),
    st.sampled_from(["__lt__", "__le__"]),
    st.sampled_from(TEXTS[:-1]),
)

expressions = st.recursive(
    st.one_of(compared("path", TEXTS), compared("changed_at", TIMES), ranges),
    lambda inner: st.one_of(
        st.builds(lambda left, right: left & right, inner, inner),
        st.builds(lambda left, right: left | right, inner, inner),
        st.builds(lambda one: ~one, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(expressions)
def test_conditions_include_each_row_of_a_combined_filter(expression):
    require_all_rows(expression)


def test_conditions_include_each_row_of_a_comparison():
    for name, values in (("path", TEXTS), ("changed_at", TIMES)):
        for value in values[:-1]:
            for operator in OPERATORS:
                require_all_rows(getattr(pc.field(name), operator)(value))


def test_nan_is_no_limit():
    """DuckDB orders NaN after all numbers."""
    value = pc.field("value_num")
    for expression in (value <= pa.scalar(math.nan), value == pa.scalar(math.nan), value.isin([1.0, math.nan])):
        assert conditions_of(expression) == ({}, {"value_num"})


def require_all_rows(expression):
    conditions, fields = conditions_of(expression)
    assert fields <= {"path", "changed_at"}
    expected = ROWS.filter(expression)
    # No path of a device has one of these forms.
    expected = expected.filter(pc.fill_null(pc.starts_with(expected["path"].cast(pa.string()), "/"), True))
    if any(not intervals for intervals in conditions.values()):
        assert expected.num_rows == 0
        return
    patterns = patterns_of(conditions["path"]) if "path" in conditions else None
    if patterns is not None:
        assert all(any(fnmatchcase(path, one) for one in patterns) for path in expected["path"].to_pylist())
    limited = expression_of(conditions, ("path", "changed_at"))
    assert limited is None or expected.filter(limited).num_rows == expected.num_rows


def test_forms_of_duckdb_are_understood():
    """Fails if another version of pyarrow serializes expressions in another form."""
    ids = [f"{number:032x}" for number in range(300)]
    time = pa.scalar(BEGIN, pa.timestamp("us", "UTC"))
    parts = [
        pc.if_else(pc.field("device_id").is_valid(), pc.field("device_id").isin(ids), None),
        (pc.field("path") == "/3303/0/5700") | ((pc.field("path") >= "/3/") & (pc.field("path") < "/30")),
        pc.field("changed_at") > time,
        pc.field("value_num") == 3.0,
    ]
    conditions, fields = conditions_of(reduce(lambda left, right: left & right, parts))
    assert fields == {"device_id", "path", "changed_at", "value_num"}
    assert points_of(conditions["device_id"]) == ids
    assert patterns_of(conditions["path"]) == ["/3/*", "/3303/0/5700"]
    assert period_of(conditions["changed_at"]) == (BEGIN, None)
    assert conditions_of(None) == ({}, frozenset())


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (pc.if_else(pc.field("path").is_valid(), pc.field("path").isin(["/a", "/b"]), None), "path in ('/a', '/b')"),
        (~pc.field("path").isin(["it's"]), "not (path in ('it''s'))"),
        (
            (pc.field("a") > 3.5) & (pc.field("b").is_null() | pc.field("b").is_valid()),
            "a > 3.5 and (b is null or b is not null)",
        ),
        (pc.field("t") <= pa.scalar(BEGIN), "t <= '2026-01-05T00:00:00.000Z'"),
        (pc.field("a") + 1 > 3, "(add_checked(a, 1) > 3)"),
    ],
)
def test_expression_as_text(expression, text):
    assert text_of(expression) == text


def test_prefix_is_a_pattern_only_without_its_end():
    path = pc.field("path")
    assert patterns_of(conditions_of((path >= "/3303/0/5700") & (path <= "/3303/0/5701"))[0]["path"]) is None
    assert patterns_of(conditions_of((path >= "/3303/") & (path < "/33030"))[0]["path"]) == ["/3303/*"]
    both = ((path >= "/3/") & (path <= "/30")) | ((path >= "/3/") & (path < "/30"))
    assert patterns_of(conditions_of(both)[0]["path"]) is None


def test_last_possible_time_has_no_time_after_it():
    changed_at = pc.field("changed_at")
    assert period_of(conditions_of(changed_at <= datetime.max.replace(tzinfo=UTC))[0]["changed_at"]) == (None, None)
    # A time of DuckDB that datetime does not have.
    last = pa.scalar(2**63 - 1, pa.timestamp("us", "UTC"))
    assert conditions_of(changed_at <= last) == ({}, None)


@pytest.mark.parametrize("path", ["3303/0/5700", "/3303/*/5700", "/3303/*", ""])
def test_string_that_is_not_a_path_matches_no_row(path):
    assert conditions_of(pc.field("path") == path)[0] == {"path": frozenset()}
