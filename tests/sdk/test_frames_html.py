"""The HTML of tables in a notebook; they remain plain tables."""

from __future__ import annotations

import re
import sys
from datetime import timedelta

import pandas as pd
import pytest
from device_objects import SNAPSHOT_AT, device, resource
from html_cells import Cells
from IPython.core.interactiveshell import InteractiveShell

from mirror_sdk.frames import drift_frame, events_frame, mirror, requests_frame, state_frame, wide
from mirror_sdk.frames.html import show_in_notebooks

TEMPERATURE, UNIT, DIMMER = "/3303/0/5700", "/3303/0/5701", "/3311/0/5851"
LONG_ID = "0198f3a2-7c1e-7d31-9a55-0242ac120002"


def warm(device_id=LONG_ID, unit=b"Cel"):
    resources = [resource(TEMPERATURE, b"21.5"), resource(UNIT, unit)]
    return device(*resources, device_id=device_id, endpoint_name=f"hall-{device_id[:4]}")


def state(*devices):
    return state_frame(devices, taken_at=SNAPSHOT_AT)


def rows_of(frame):
    return Cells(mirror(frame).to_html()).rows


@pytest.fixture
def shell(monkeypatch):
    made = InteractiveShell()
    made.display_formatter.active_types = ["text/plain", "text/html"]
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: made)
    yield made
    made.history_manager.end_session()


def displayed(shell, thing):
    return shell.display_formatter.format(thing)[0]


def test_ids_and_times_stay_in_one_line_without_styles():
    html = mirror(state(warm())[["device_id", "reported_at"]]).to_html()
    for text in (LONG_ID, "2026-11-20 12:37:55.576"):
        assert f'<td nowrap style="text-align: left; white-space: nowrap">{text}</td>' in html
    # A long text may have several lines.
    texts = pd.DataFrame({"device_id": ["a"], "reason": ["a reason of many words " * 8]})
    with pd.option_context("display.max_colwidth", None):
        assert '<td style="text-align: left">a reason' in mirror(texts).to_html()


def test_missing_cells_have_the_same_sign_in_every_column():
    nothing = state(device(resource("odd"), endpoint_name=None))
    known = {"device_id", "path", "value_kind", "subscribed"}
    header, row = rows_of(nothing[[name for name in nothing if name not in known]])
    assert (len(header), set(row[1:])) == (len(nothing.columns) - len(known) + 1, {"—"})
    objects = pd.DataFrame({"device_id": [None, pd.NA, float("nan"), pd.NaT, ""]}, dtype=object)
    assert [row[1] for row in rows_of(objects)] == ["device_id", *["—"] * 5]


def test_a_unit_stands_in_the_header_where_all_rows_have_it():
    both = [warm(), warm("b", b"K")]
    many = pd.concat([state(warm(f"id-{n}")) for n in range(40)] + [state(both[1])] + [state(warm("z"))] * 40)
    light, silent = device(resource(DIMMER, b"40", b"40"), device_id="c"), device(resource(TEMPERATURE), device_id="d")
    three = state(warm(), light, silent)
    for table, titles in (
        (state(both[0]), {"reported_num (°C)"}),
        (state(*both), {"reported_num"}),
        # Hidden rows count as well.
        (many, {"reported_num"}),
        # Each column of values has the unit of the rows with a value in it.
        (state(warm(), device(resource(DIMMER, None, b"40"))), {"reported_num (°C)", "desired_num (%)"}),
        (wide(three), {f"{TEMPERATURE} (°C)", f"{DIMMER} (%)"}),
        (wide(three, columns="label"), {"Temperature · Sensor Value (°C)", "Light Control · Dimmer (%)"}),
        (wide(state(*both)), {TEMPERATURE}),
    ):
        assert titles <= set(rows_of(table)[0])
        assert "device_id" in rows_of(table)[0][:2]


def test_times_have_their_zone_and_spans_their_unit_in_the_header():
    spans = [timedelta(seconds=1.25), None]
    table = pd.DataFrame({"device_id": ["a", "b"], "age": pd.to_timedelta(spans), "at": [SNAPSHOT_AT, None]})
    table["at"] = pd.to_datetime(table["at"], utc=True)
    assert rows_of(table)[0][2:] == ["age (s)", "at (UTC)"]
    assert [row[2:] for row in rows_of(table)[1:]] == [["1.250", "2026-11-20 12:37:55.576"], ["—", "—"]]
    there = table.assign(age=table["age"] * 7200).mirror.in_zone("Europe/Berlin")
    assert rows_of(there)[0][2:] == ["age (h)", "at (Europe/Berlin)"]
    assert rows_of(there)[1][2:] == ["2.5", "2026-11-20 13:37:55.576"]
    full_seconds = table.assign(at=table["at"].dt.floor("s"))
    assert [row[3] for row in rows_of(full_seconds)[1:]] == ["2026-11-20 12:37:55", "—"]
    unzoned = table.assign(at=table["at"].dt.tz_localize(None))
    assert rows_of(unzoned)[0][3] == "at"


def test_malicious_texts_are_escaped_everywhere():
    for text in ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a\u202eb\x1b[2J"):
        for table in (
            pd.DataFrame({"device_id": [text]}),
            pd.DataFrame({"device_id": ["a"], text: [1.0]}),
            pd.DataFrame({"device_id": ["a"], "x_num": [1.0], "unit": [text]}),
            pd.DataFrame({"n": [1]}, index=pd.Index([text], name=text)),
        ):
            html = mirror(table).to_html()
            assert set(Cells(html).tags) <= {"table", "thead", "tbody", "tr", "th", "td"}
            assert not re.search("[\u202e\x1b]", html)


def test_a_large_table_is_cut_as_the_options_say():
    few = state(warm())
    many = few.loc[few.index.repeat(50_000)].reset_index(drop=True)
    rows = rows_of(many)
    assert len(rows) == 1 + 10 + 1
    assert [row[0] for row in rows[4:8]] == ["3", "4", "…", "99995"]
    with pd.option_context("display.max_columns", 20):
        assert len(rows_of(many)[0]) == 1 + 20 + 1
    with pd.option_context("display.max_rows", 4, "display.max_columns", 3, "display.min_rows", None):
        assert [len(rows_of(many)), rows_of(many)[0][1:]] == [6, ["device_id", "endpoint_name", "…", "acknowledged_by"]]
    with pd.option_context("display.max_columns", None, "display.max_colwidth", 8):
        assert len(rows_of(many)[0]) == 1 + len(many.columns)
        assert rows_of(many)[1][1] == LONG_ID[:7] + "…"
    with pd.option_context("display.max_rows", 4):
        assert len(rows_of(state(warm(), warm("b")))) == 1 + 4


def test_tables_with_any_index_and_column_names_are_displayed():
    base = state(warm(), warm("b"))
    assert rows_of(wide(state())) == [["device_id"]]
    assert len(rows_of(base.set_index(["device_id", "path"]))[1]) == len(base.columns)
    doubled = pd.concat([base[["device_id", "reported_num"]], base[["reported_num", "unit"]]], axis="columns")
    assert rows_of(doubled)[0][1:] == ["device_id", "reported_num", "reported_num", "unit"]
    stacked = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "")]))
    assert rows_of(stacked) == [["\xa0", "a x", "a"], ["0", "1", "2"]]
    for empty in (events_frame([]), requests_frame([]), drift_frame(state())):
        assert len(rows_of(empty)) == 1


def test_a_notebook_shows_it_and_it_stays_a_plain_frame(shell):
    show_in_notebooks()
    frame = state(warm())
    assert type(frame) is pd.DataFrame
    selected = frame[["reported_num", "reported_at"]].head()
    for table in (frame, selected, frame.merge(frame[["device_id"]], on="device_id"), wide(frame)):
        assert displayed(shell, table)["text/html"] == mirror(table).to_html()
        assert displayed(shell, table)["text/plain"] == repr(table)


def test_other_frames_and_display_options_are_unchanged(shell, monkeypatch):
    other = pd.DataFrame({"n": [None]})
    show_in_notebooks()
    assert displayed(shell, other)["text/html"] == other._repr_html_()
    frame = state(warm())
    with pd.option_context("display.notebook_repr_html", False):
        assert "text/html" not in displayed(shell, frame)
    monkeypatch.setattr(pd.DataFrame, "_repr_html_", lambda self: "mine")
    assert displayed(shell, frame)["text/html"] == "mine"
    shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, lambda frame: "told")
    show_in_notebooks()
    assert displayed(shell, frame)["text/html"] == "told"


def test_without_ipython_no_formatter_is_registered(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython")
    show_in_notebooks()
