"""Operations on tables: stale values, plots, joins and exports."""

from __future__ import annotations

import io
from datetime import datetime, timedelta

import device_objects
import matplotlib as mpl
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from device_objects import NOW, at, observation, resource
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from resource_paths import LEVEL, SWITCH, TEMPERATURE

from mirror_sdk import DeviceList, Event, EventKind, InvalidValue
from mirror_sdk.frames import events_frame, from_arrow, state_frame, to_arrow
from mirror_sdk.wire.directory import Device

mpl.use("agg")


def device(device_id, name, reported):
    """Return a device object with reported values: path to value and age in minutes, or ``None`` if never reported."""
    resources = [
        resource(path, value, reported_at=at(-minutes)) if minutes else resource(path)
        for path, (value, minutes) in reported.items()
    ]
    return device_objects.device(*resources, device_id=device_id, endpoint_name=name)


HALL = device("d1", "Hall", {LEVEL: (b"1", 150), TEMPERATURE: (b"20.5", 30), SWITCH: (None, None)})
ROOF = device("d2", "Roof", {LEVEL: (b"2", 300), TEMPERATURE: (b"3", 120)})
CELLAR = device("d3", "Cellar", {LEVEL: (None, None)})
FRESH = device("d4", "Fresh", {LEVEL: (b"4", 1)})


def state(*devices, **more):
    return state_frame(devices or (HALL, ROOF, CELLAR, FRESH), taken_at=NOW, **more)


# Stale values


def rows_of(frame):
    return [f"{name} {path}" for name, path in zip(frame["endpoint_name"], frame["path"], strict=True)]


def test_stale_values_are_older_than_the_age_and_were_reported():
    old = [f"Hall {LEVEL}", f"Roof {LEVEL}", f"Roof {TEMPERATURE}"]
    assert rows_of(state().mirror.stale("1h")) == old
    assert rows_of(state().mirror.stale("2h", now=at(60))) == old
    assert rows_of(state().mirror.stale(pd.Timedelta(hours=4))) == [f"Roof {LEVEL}"]
    never_read = state().mirror.stale("4h", never_read=True)
    assert rows_of(never_read) == [f"Hall {SWITCH}", f"Roof {LEVEL}", f"Cellar {LEVEL}"]
    for wrong in ("soon", "-1h"):
        with pytest.raises(InvalidValue, match="1h"):
            state().mirror.stale(wrong)
    with pytest.raises(InvalidValue, match="by='room'"):
        state().mirror.stale("1h", by="room")


def read_from_csv(frame):
    return pd.read_csv(io.StringIO(frame.to_csv(index=False))).mirror.with_metadata_from(frame)


def test_times_read_as_texts_are_rejected_with_the_cure():
    frame = read_from_csv(state())
    with pytest.raises(InvalidValue, match=r"the column reported_at has (str|object) instead of times") as failure:
        frame.mirror.stale("1h")
    cure = 'frame["reported_at"] = pd.to_datetime(frame["reported_at"], format="ISO8601", utc=True)'
    assert str(failure.value).endswith(f"convert it with {cure}")
    frame["reported_at"] = pd.to_datetime(frame["reported_at"], format="ISO8601", utc=True)
    assert frame.mirror.stale("1h")["path"].tolist() == state().mirror.stale("1h")["path"].tolist()
    assert_frame_equal(frame.mirror.drift(), state().mirror.drift())
    frame["reported_at"] = frame["reported_at"].dt.tz_localize(None)
    with pytest.raises(InvalidValue, match="instead of times with a zone"):
        frame.mirror.stale("1h")
    written = state().assign(desired_status="success", desired_at=NOW, requested_at=NOW)
    with pytest.raises(InvalidValue, match=r"the column reported_at has (str|object) instead of times"):
        read_from_csv(written).mirror.drift()


def as_arrow(frame):
    """Convert to Arrow's types, as ``pd.read_parquet(file, dtype_backend="pyarrow")`` returns them."""
    table = pa.Table.from_pandas(frame)
    return table.to_pandas(types_mapper=pd.ArrowDtype).mirror.with_metadata_from(frame)


def test_a_table_of_arrow_types_is_stale_and_in_another_zone_as_any_other():
    found = as_arrow(state()).mirror.stale("1h", by="device")
    assert_frame_equal(found, state().mirror.stale("1h", by="device"))
    there = as_arrow(state()).mirror.in_zone("Asia/Kolkata")
    assert there["reported_at"].dropna().dt.hour.tolist() == [15, 17, 12, 15, 17]
    # Dates, and times without a zone, stay unchanged.
    for kind in (pa.date32(), pa.date64(), pa.timestamp("ms")):
        days = pd.Series(pd.to_datetime(["2026-01-05"] * len(state()))).astype(pd.ArrowDtype(kind))
        there = as_arrow(state()).assign(installed=days).mirror.in_zone("Asia/Kolkata")
        assert there["installed"].tolist() == days.tolist()


def test_drift_is_the_same_with_an_index_and_with_arrow_types():
    original = state(raw=True)
    original["desired_num"] = pd.array([3.0] * len(original), dtype="Float64")
    original["desired_raw"] = pd.Series([b"1"] * len(original), dtype=object)
    original.loc[original["path"] != SWITCH, "desired_status"] = "success"
    original["desired_at"] = original["requested_at"] = NOW - timedelta(minutes=100)
    expected = original.mirror.drift(unconfirmed=True)
    assert len(expected) > 2
    for frame in (original.set_index("device_id"), original.set_index(["device_id", "path"]), as_arrow(original)):
        assert_frame_equal(frame.mirror.drift(unconfirmed=True), expected)
    with pytest.raises(InvalidValue, match="the state table lacks path"):
        original.drop(columns="path").mirror.drift()


def test_stale_devices_are_rows_the_longest_silent_first():
    found = state().mirror.stale("1h", by="device", never_read=True)
    expected = [
        ["d2", "Roof", 2, 2, at(-300), at(-120)],
        ["d1", "Hall", 2, 3, at(-150), at(-30)],
        ["d3", "Cellar", 1, 1, pd.NaT, pd.NaT],
    ]
    names = ["device_id", "endpoint_name", "stale", "resources", "oldest_at", "newest_at"]
    assert found[names].values.tolist() == expected
    assert found["last_contact"].isna().all()
    assert found.attrs == state().attrs
    there = state(tz="Europe/Berlin").mirror.stale("1h", by="device")
    assert (there["endpoint_name"].tolist(), str(there["oldest_at"].dt.tz)) == (["Roof", "Hall"], "Europe/Berlin")


def test_directory_supplies_the_last_contact_of_stale_devices():
    contacts = [("d9", at(-9)), ("d1", at(-10)), ("d2", None)]
    body = {"state": "registered", "created_at": NOW, "updated_at": NOW, "queue_mode": True}
    devices = DeviceList(
        Device.model_validate(body | {"id": one, "endpoint_name": one, "last_contact_at": last_contact_at})
        for one, last_contact_at in contacts
    )
    listed = devices.to_frame()
    expected = [[one, True, NOW, last_contact_at or pd.NaT] for one, last_contact_at in contacts]
    assert listed[["device_id", "queue_mode", "created_at", "last_contact"]].values.tolist() == expected
    assert ["2026-01-05 11:5" in one._repr_html_() for one in devices] == [True, True, False]
    for directory in (devices, listed):
        assert state().mirror.stale("1h", by="device", devices=directory)["last_contact"].tolist() == [pd.NaT, at(-10)]
    for other in (["d1"], [None], pd.DataFrame({"device_id": ["d1"]}), HALL):
        with pytest.raises(InvalidValue, match=r"devices= .* client\.devices\.list\(\)"):
            state().mirror.stale("1h", by="device", devices=other)


# Plots


def test_a_legend_names_devices_and_resources(tmp_path):
    rows = [
        ("0198aaaa01", TEMPERATURE, None, "Roof Temperature · Sensor Value /3303/0/5700"),
        ("0198aaaa01", "/3303/1/5700", "Roof", "Roof Temperature · Sensor Value /3303/1/5700"),
        ("0198aaaa01", "/9999/0/1", "Roof", "Roof /9999/0/1"),
        ("0198aaaa02", LEVEL, "Hall", "Hall (0198aaaa02) Light Control · Dimmer"),
        ("0198aaaa03", LEVEL, "hall", "hall (0198aaaa03) Light Control · Dimmer"),
        ("nameless", LEVEL, None, "nameless Light Control · Dimmer"),
        # Matplotlib hides a label that begins with an underscore, and interprets text between dollar signs.
        ("d1", LEVEL, "_hidden", " _hidden Light Control · Dimmer"),
        ("d2", LEVEL, r"$\frac$", r"$\frac$ Light Control · Dimmer"),
        ("d3", LEVEL, "a\x1b[2J", r"a\x1b[2J Light Control · Dimmer"),
        ("d4", LEVEL, "n" * 300, "n" * 40 + "… Light Control · Dimmer"),
    ]
    events = events_frame(
        [observation("20", 0, path, device_id, endpoint_name=name) for device_id, path, name, _ in rows]
    )
    events["value_num"] = events["value_num"].fillna(22.0)
    axes = events.mirror.plot_timeline()
    axes.figure.savefig(tmp_path / "timeline.png")
    mpl.pyplot.close(axes.figure)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [label for *_, label in rows]


def test_each_row_of_any_table_has_a_label():
    events = events_frame([observation("20"), Event(kind=EventKind.GAP, received_at=NOW)])
    assert events.mirror.labels.fillna("none").tolist() == ["Temperature · Sensor Value", "none"]


# Joins

ROOMS = pd.DataFrame({"device_id": ["d2", "d1", "d9"], "room": ["Attic", "Hall", "Nowhere"]})


def older(**metadata):
    """A table of two of the devices, from an hour earlier."""
    table = state_frame([HALL, ROOF], taken_at=at(-60), server="http://b")
    table.attrs["mirror"].update(metadata)
    return table


def test_a_join_with_any_other_table_stays_based_on_the_same():
    table = state(server="http://a")
    joined = table.mirror.join(ROOMS, on="device_id")
    assert joined.attrs == table.attrs
    assert joined["device_id"].tolist() == table["device_id"].tolist()
    assert joined["device_id"].dtype == table["device_id"].dtype
    assert joined["room"].fillna("none").tolist() == ["Hall"] * 3 + ["Attic"] * 2 + ["none"] * 2
    turned = ROOMS.mirror.join(table)
    assert (turned.attrs, turned["device_id"].dtype) == (table.attrs, ROOMS["device_id"].dtype)
    assert joined.mirror.stale("1h")["room"].tolist() == ["Hall", "Attic", "Attic"]
    assert joined.mirror.drift().empty
    assert "mirror" not in ROOMS.mirror.join(ROOMS).attrs


@pytest.mark.parametrize("turned", [False, True])
def test_combined_table_is_as_old_as_the_older_and_complete_only_if_both_are(turned):
    tables = [state(server="http://a"), older(complete=False)]
    left, right = reversed(tables) if turned else tables
    for made, devices in (
        (left.mirror.join(right), 2 if turned else 4),
        (pd.concat(tables).mirror.with_metadata_from(left, right), 4),
    ):
        metadata = dict(made.attrs["mirror"])
        assert metadata.pop("server").split(", ") == sorted(["http://a", "http://b"], reverse=turned)
        assert metadata == {"taken_at": "2026-01-05T11:00:00.000Z", "devices": devices, "complete": False}
        third = made.mirror.join(older(), suffix="_third")
        assert sorted(third.attrs["mirror"]["server"].split(", ")) == ["http://a", "http://b"]


@pytest.mark.parametrize("how", ["left", "right", "inner", "outer"])
def test_a_join_has_the_rows_of_pandas_and_its_categories(how):
    table, rooms, keys = state(), pd.concat([ROOMS, ROOMS]), ["device_id", "path", "room"]
    plain = table.astype({"device_id": object}).merge(rooms, on="device_id", how=how)
    for other in (rooms, rooms.astype({"device_id": "category"})):
        joined = table.mirror.join(other, on=["device_id"], how=how)
        assert isinstance(joined["device_id"].dtype, pd.CategoricalDtype)
        assert_frame_equal(joined[keys].astype("string"), plain[keys].astype("string"))


def test_missing_key_matches_nothing():
    events = events_frame([Event(kind=EventKind.GAP, received_at=NOW), observation("50", path=LEVEL)])
    other = pd.DataFrame({"device_id": [None, "d1"], "room": ["Nowhere", "Hall"]})
    assert events.mirror.join(other)["room"].fillna("none").tolist() == ["none", "Hall"]
    # A table without a time does not make the result of a join older.
    joined = state().mirror.join(events_frame([]), on="device_id")
    assert joined.attrs["mirror"]["taken_at"] == state().attrs["mirror"]["taken_at"]


def test_shared_columns_come_from_the_left_table_and_a_wide_table_joins_by_its_index():
    wide = state().mirror.wide()
    joined = wide.mirror.join(state(FRESH, HALL)[["device_id", "endpoint_name"]].drop_duplicates(), how="inner")
    assert joined["endpoint_name"].tolist() == ["Hall", "Fresh"]
    assert joined.attrs["mirror"]["taken_at"] == state().attrs["mirror"]["taken_at"]
    again = state().mirror.join(older(), suffix="_before")
    assert again.mirror.value.tolist() == state().mirror.value.tolist()
    assert again["reported_num_before"].notna().sum() == 4


def test_invalid_join_names_missing_or_duplicate_columns():
    table, doubled = state(), pd.DataFrame([["d1", "d1"]], columns=["device_id", "device_id"])
    for one, other, options, words in (
        (table, ROOMS, {"on": ["device_id", "floor"]}, "table lacks the column floor; it has"),
        (table, ROOMS, {"on": "path"}, "other table lacks the column path; it has device_id, room"),
        (table, ROOMS[["room"]], {}, "share neither device_id nor path"),
        (table, ROOMS, {"on": []}, "share neither device_id nor path"),
        (table, ROOMS, {"how": "cross"}, "how='cross'"),
        (table, doubled, {"on": "device_id"}, "table has the column device_id more than once"),
        (doubled, table, {"on": "device_id"}, "table has the column device_id more than once"),
    ):
        with pytest.raises(InvalidValue, match=words):
            one.mirror.join(other, **options)


def test_metadata_cannot_be_restored_from_a_table_without_metadata():
    for originals in ([], [ROOMS], [ROOMS, ROOMS]):
        with pytest.raises(InvalidValue, match=r"client\.fleet\.snapshot\(\)"):
            state().mirror.with_metadata_from(*originals)


@pytest.mark.parametrize("kind", ["merge", "csv"])
def test_dropped_metadata_are_restored(kind):
    table = state()
    text = io.StringIO(table.to_csv(index=False))
    merged = table.merge(ROOMS, on="device_id", how="left")
    made = merged if kind == "merge" else pd.read_csv(text, parse_dates=["reported_at"])
    with pytest.raises(InvalidValue, match=r"frame\.mirror\.with_metadata_from\(original\)"):
        made.mirror.stale("1h")
    again = made.mirror.with_metadata_from(table)
    assert again.attrs == table.attrs
    assert "mirror" not in made.attrs
    assert again.mirror.stale("1h")["path"].tolist() == table.mirror.stale("1h")["path"].tolist()
    again.attrs["mirror"]["devices"] = 99
    assert table.attrs["mirror"]["devices"] == 4


# Exports


def sheet_of(frame, tmp_path):
    """Return the rows of an Excel sheet, and the type of each cell."""
    file = tmp_path / "table.xlsx"
    frame.mirror.for_excel().to_excel(file, index=False)
    sheet = openpyxl.load_workbook(file).active
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    kinds = {cell.data_type for row in sheet.iter_rows() for cell in row}
    assert kinds <= {"s", "n", "b", "d", "inlineStr"}
    return rows


def test_every_table_becomes_a_sheet(tmp_path):
    for frame in (
        state(raw=True, tz="Europe/Berlin"),
        events_frame([observation("50", path=LEVEL), Event(kind=EventKind.GAP, received_at=NOW)]),
        events_frame([], raw=True),
        state().mirror.drift(),
        state().mirror.stale("1h", by="device"),
        state().mirror.wide(columns="label"),
        pd.DataFrame(),
    ):
        before, attrs = frame.copy(), dict(frame.attrs)
        assert len(sheet_of(frame, tmp_path)) == (len(frame) + 1 if frame.columns.size else 0)
        assert frame.mirror.for_excel().attrs == attrs
        assert_frame_equal(frame, before)


def test_excel_times_have_the_zone_in_the_column_name(tmp_path):
    names, *rows = sheet_of(state(FRESH, tz="Europe/Berlin"), tmp_path)
    row = dict(zip(names, rows[0], strict=True))
    assert row["reported_at (Europe/Berlin)"] == datetime(2026, 1, 5, 12, 59)
    assert row["desired_at (Europe/Berlin)"] is None
    assert (row["reported_num"], row["subscribed"], row["device_id"], row["object_id"]) == (4, False, "d4", 3311)
    assert "reported_at (UTC)" in sheet_of(state(FRESH), tmp_path)[0]


def test_a_wide_table_of_events_has_one_row_of_names(tmp_path):
    frame = events_frame([observation("50", path=LEVEL), observation("1", path=SWITCH)]).mirror.wide()
    assert sheet_of(frame, tmp_path) == [
        ["changed_at (UTC)", f"d1 {LEVEL}", f"d1 {SWITCH}"],
        [datetime(2026, 1, 5, 12), 50, True],
    ]


def test_values_that_excel_cannot_store_are_converted(tmp_path):
    early = pd.to_datetime(["1890-01-31", "2026-01-05"], utc=True).as_unit("ms")
    columns = [
        ("latency", pd.to_timedelta([1500, None], unit="ms"), "latency (s)", [1.5, None]),
        ("raw", [b"\x00\xff", b""], "raw", ["00 ff", "base64:"]),
        ("list", [["a", 1], {"b": None}], "list", ["['a', 1]", "{'b': None}"]),
        ("number", pd.array([10**15, 1], dtype="Int64"), "number", [str(10**15), "1"]),
        ("large", pd.array([2**62 + 1, None], dtype="Int64"), "large", [str(2**62 + 1), None]),
        ("small", pd.array([10**15 - 1, None], dtype="Int64"), "small", [10**15 - 1, None]),
        ("early", early, "early (UTC)", ["1890-01-31 00:00:00", "2026-01-05 00:00:00"]),
        ("any", [pd.Timestamp(NOW), 2**70], "any", ["2026-01-05 12:00:00+00:00", str(2**70)]),
        ("yes", pd.array([True, None], dtype="boolean"), "yes", [True, None]),
        ("plain", pd.to_datetime(["2026-01-05", None]), "plain", [datetime(2026, 1, 5), None]),
    ]
    sheet = sheet_of(pd.DataFrame({name: cells for name, cells, *_ in columns}), tmp_path)
    for found, (*_, name, expected) in zip(zip(*sheet, strict=True), columns, strict=True):
        assert list(found) == [name, *expected]


def test_a_table_of_arrow_types_becomes_the_same_sheet(tmp_path):
    frame = state()[["device_id", "reported_at", "reported_num", "subscribed"]]
    frame["age"] = NOW - frame["reported_at"]
    assert sheet_of(frame.convert_dtypes(dtype_backend="pyarrow"), tmp_path) == sheet_of(frame, tmp_path)


@pytest.mark.parametrize("index", [pd.DatetimeIndex([NOW]), pd.Index(["=1+1"]), pd.TimedeltaIndex(["1h"])])
def test_an_index_without_a_name_is_written_as_a_column_where_it_is_more_than_numbers(index, tmp_path):
    rows = sheet_of(pd.DataFrame({"value": [1]}, index=index), tmp_path)
    expected = {"index (UTC)": NOW.replace(tzinfo=None), "index": "'=1+1", "index (s)": 3600}
    assert rows == [[rows[0][0], "value"], [expected[rows[0][0]], 1]]


def test_index_that_is_also_a_column_is_written_once(tmp_path):
    frame = state().set_index("device_id", drop=False)
    assert sheet_of(frame, tmp_path) == sheet_of(state(), tmp_path)
    rooms = pd.DataFrame({"device_id": ["d1"], "room": ["Hall"]}).set_index("device_id", drop=False)
    assert_frame_equal(frame.mirror.join(rooms), state().mirror.join(rooms.reset_index(drop=True)))


def test_no_text_of_a_device_is_executed_by_a_spreadsheet(tmp_path):
    texts = {
        "=1+1": "'=1+1",
        "{=1+1}": "'{=1+1}",
        '=HYPERLINK("http://x")': '\'=HYPERLINK("http://x")',
        "+1+1": "'+1+1",
        "@SUM(1)": "'@SUM(1)",
        "'=1": "''=1",
        "-21.5": "-21.5",
        "000012300007": "000012300007",
        "a\x1b[2J\x00": r"a\x1b[2J\x00",
        "x" * 32_767: "x" * 32_767,
    }
    frame = pd.DataFrame({"text": [*texts], "word": pd.Categorical([*texts])})
    assert sheet_of(frame, tmp_path)[1:] == [[escaped, escaped] for escaped in texts.values()]
    names = [text for text in texts if len(text) < 100]
    assert sheet_of(pd.DataFrame(columns=names), tmp_path) == [[texts[name] for name in names]]


@settings(max_examples=30)
@given(st.lists(st.text(max_size=8) | st.text(alphabet="'={+-@\x00\x1b\ud800\ufffe\n1", max_size=6), min_size=1))
def test_any_text_becomes_a_cell_that_is_a_text(texts):
    sheet = openpyxl.Workbook().active
    for text in pd.DataFrame({"text": pd.Series(texts, dtype=object)}).mirror.for_excel()["text"]:
        text.encode()
        sheet.append([text])
        assert sheet.cell(sheet.max_row, 1).data_type != "f"


def test_table_too_large_for_a_sheet_is_rejected():
    for frame, words in (
        (pd.DataFrame({"a": range(1_048_576)}), r"1,048,576 rows.*to_parquet"),
        (pd.DataFrame([range(16_385)]), "16,385 columns"),
        (pd.DataFrame({"name": pd.Categorical(["a", "x" * 32_768])}), "row 1, name: the text has 32,768 characters"),
    ):
        with pytest.raises(InvalidValue, match=words):
            frame.mirror.for_excel()
    assert len(pd.DataFrame({"a": range(1_048_575)}).mirror.for_excel()) == 1_048_575


def test_missing_duration_is_null_for_duckdb():
    frame = pd.DataFrame({"latency": pd.to_timedelta([None, 3000], unit="ms").as_unit("ms")})
    (chunk,) = to_arrow(frame)["latency"].chunks
    assert chunk.buffers()[1].to_pybytes()[:16] == (0).to_bytes(8, "little") + (3000).to_bytes(8, "little")
    assert_frame_equal(from_arrow(to_arrow(frame)), frame)


@pytest.mark.parametrize(("units", "label"), [(["%", "%", "%"], "value (%)"), (["%", "%", None], "value")])
def test_a_timeline_has_a_line_for_each_path_and_the_unit_of_all_lines(units, label):
    events = events_frame([observation("20", path=f"/3311/{n}/5851", unit=unit) for n, unit in enumerate(units)])
    for frame in (events, as_arrow(events)):
        axes = frame.mirror.in_zone("Europe/Berlin").mirror.plot_timeline()
        mpl.pyplot.close(axes.figure)
        assert (len(axes.get_lines()), axes.get_ylabel()) == (3, label)
        assert "Europe/Berlin" in axes.get_xlabel()
        assert axes.get_lines()[0].get_ydata().tolist() == [20.0]
    later = events_frame([observation("30", path=f"/3311/{n}/5851", unit="%") for n in range(3)])
    later["unit"] = "Cel"
    for frame, expected in ((later, "value (°C)"), (pd.concat([events.assign(unit=None), later]), "value (°C)")):
        axes = frame.mirror.plot_timeline()
        mpl.pyplot.close(axes.figure)
        assert axes.get_ylabel() == expected
    axes = events.mirror.plot_timeline(paths=["/3311/0/5851", "/3311/2/5851"])
    mpl.pyplot.close(axes.figure)
    assert len(axes.get_lines()) == 2
