from datetime import timedelta

import pandas as pd
import pyarrow as pa
import pytest
from device_objects import SNAPSHOT_AT, device, resource
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_sdk.arrow_tables.columns import INSTANT
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames import state_frame, value_column, wide
from mirror_sdk.frames.columns import to_frame
from mirror_sdk.values import ValueKind

EVERY_KIND = device(
    resource("/3303/0/5700", b"21.5", subscribed=True),
    resource("/3303/0/5701", b"Cel"),
    resource("/3311/0/5850", b"1", b"0", status=1),
    resource("/3/0/13", b"1700000000"),
    resource("/3/0/22", b"3303:0"),
    resource("/3303/0/5602", b"hot"),
    resource("/3308/0/5900", None, b"22"),
)


def state(*devices, **options):
    return state_frame(devices, taken_at=SNAPSHOT_AT, **options)


def test_the_value_is_split_by_kind():
    rows = state(EVERY_KIND).set_index("path")
    assert rows["value_kind"].tolist() == ["number", "text", "boolean", "time", "objlink", "opaque", "none"]
    assert rows["reported_num"].dropna().to_dict() == {"/3303/0/5700": 21.5}
    assert rows["reported_bool"].dropna().to_dict() == {"/3311/0/5850": True}
    assert rows["reported_text"].dropna().to_dict() == {
        "/3303/0/5701": "Cel",
        "/3/0/13": "2023-11-14T22:13:20.000Z",
        "/3/0/22": "3303:0",
    }
    assert rows["desired_num"].dropna().to_dict() == {"/3308/0/5900": 22.0}
    assert rows["desired_bool"].dropna().to_dict() == {"/3311/0/5850": False}
    light = rows.loc["/3311/0/5850"]
    assert (light["reported_at"], light["fresh_until"]) == (SNAPSHOT_AT, SNAPSHOT_AT + timedelta(seconds=60))
    assert (light["requested_at"], light["desired_at"]) == (SNAPSHOT_AT, SNAPSHOT_AT + timedelta(seconds=1))
    first = rows.iloc[0]
    assert [first[name] for name in ("object_id", "instance_id", "resource_id")] == [3303, 0, 5700]
    assert (first["label"], first["unit"], first["subscribed"]) == ("Temperature · Sensor Value", "Cel", True)


def test_undeclared_label_and_unit_are_missing():
    row = state(device(resource("odd", b"1"), endpoint_name=None)).iloc[0]
    assert row[["endpoint_name", "object_id", "instance_id", "resource_id", "label", "unit"]].isna().all()
    assert row["reported_text"] == "1"


def test_the_desired_status_is_ordered_and_all_categories_are_always_there():
    frame = state(device(*(resource(f"/3308/{n}/5900", None, b"1", status=n) for n in (2, 0, 1))))
    assert frame["desired_status"].sort_values().tolist() == ["pending", "success", "failure"]
    for empty_or_not in (frame, state()):
        statuses = empty_or_not["desired_status"].cat
        assert (statuses.ordered, statuses.categories.tolist()) == (True, ["pending", "success", "failure"])
        assert empty_or_not["value_kind"].cat.categories.tolist() == list(ValueKind)


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["/3303/0/5700", "/3311/0/5850", "/3/0/13", "/5/0/0", "/5/0/13", "/9/9/9", "?"]),
            st.none() | st.binary(),
            st.none() | st.binary(),
            st.sampled_from(["text/plain", "application/octet-stream", "x"]),
        ),
        unique_by=lambda row: row[0],
    )
)
def test_no_payload_breaks_a_frame(rows):
    resources = [resource(path, reported, desired, content_type=ct) for path, reported, desired, ct in rows]
    frame = state(device(*resources), raw=True)
    payloads = frame[["path", "reported_raw", "desired_raw"]].astype(object)
    assert payloads.where(payloads.notna(), None).values.tolist() == [list(row[:3]) for row in rows]
    assert frame.dtypes.astype(str).to_dict() == state(raw=True).dtypes.astype(str).to_dict()


def test_paths_choose_rows_but_every_device_counts():
    frame = state(EVERY_KIND, device(device_id="other"), paths=["/3303/0/5700", "/3311/*"])
    assert frame["path"].tolist() == ["/3303/0/5700", "/3311/0/5850"]
    assert frame.attrs["mirror"]["devices"] == 2
    assert state(EVERY_KIND, paths=[]).empty


def test_time_without_zone_is_rejected_with_the_cure():
    with pytest.raises(InvalidValue, match=r"taken_at.* time zone.*replace\(tzinfo=UTC\)"):
        state_frame([EVERY_KIND], taken_at=SNAPSHOT_AT.replace(tzinfo=None))


def test_metadata_of_a_frame_survive_parquet(tmp_path):
    frame = state(EVERY_KIND, raw=True, server="http://a")
    metadata = {"taken_at": "2026-11-20T12:37:55.576Z", "devices": 1, "complete": True, "server": "http://a"}
    frame.to_parquet(tmp_path / "state.parquet")
    assert frame.attrs["mirror"] == pd.read_parquet(tmp_path / "state.parquet").attrs["mirror"] == metadata
    pd.testing.assert_frame_equal(EVERY_KIND.to_frame(raw=True), frame)


def test_one_readable_column_of_values():
    reported, desired = value_column(state(EVERY_KIND)), value_column(state(EVERY_KIND), "desired")
    assert reported.name == "value"
    assert reported.dropna().tolist() == [21.5, "Cel", True, "2023-11-14T22:13:20.000Z", "3303:0"]
    assert reported.isna().tolist() == [False] * 5 + [True] * 2
    assert desired.dropna().tolist() == [False, 22.0]
    assert value_column(state()).dtype == object


def test_wide_has_a_row_for_each_device_and_a_column_for_each_path():
    other = device(resource("/3303/0/5700", b"7"), resource("/9/0/1"), device_id="a")
    table = wide(state(EVERY_KIND, other))
    assert table.index.tolist() == ["015f00", "a"]
    assert table.index.name == "device_id"
    assert table.columns.tolist() == [*EVERY_KIND, "/9/0/1"]
    assert table["/3303/0/5700"].tolist() == [21.5, 7.0]
    assert (table["/3303/0/5700"].dtype, table["/3311/0/5850"].dtype) == ("Float64", "boolean")
    assert table["/3303/0/5701"].dtype == "string"
    assert table.attrs["mirror"]["devices"] == 2
    assert wide(state(EVERY_KIND), of="desired")["/3308/0/5900"].tolist() == [22.0]


def test_wide_by_label_distinguishes_instances():
    paths = ("/3303/0/5700", "/3303/1/5700", "/3304/0/5700", "/9/0/1")
    table = wide(state(device(*(resource(path, b"1") for path in paths))), columns="label")
    assert table.columns.tolist() == [
        "Temperature · Sensor Value /3303/0/5700",
        "Temperature · Sensor Value /3303/1/5700",
        "Humidity · Sensor Value",
        "/9/0/1",
    ]


@pytest.mark.parametrize("columns", ["path", "label"])
def test_wide_of_nothing_is_empty(columns):
    table = wide(state(), columns=columns)
    assert (table.shape, table.index.name) == ((0, 0), "device_id")


def test_wide_rejects_two_snapshots_in_one_table():
    with pytest.raises(InvalidValue, match="drop_duplicates"):
        wide(pd.concat([state(EVERY_KIND), state(EVERY_KIND)]))


def _array(values, kind):
    """Return an array of exactly this type, since older versions of Arrow choose the type of dictionary indices."""
    if not pa.types.is_dictionary(kind):
        return pa.array(values, kind)
    encoded = pa.array(values, kind.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        encoded.indices.cast(kind.index_type), encoded.dictionary, ordered=kind.ordered
    )


COLUMNS = [
    (pa.int16(), [1, -(2**15)], pd.Int16Dtype()),
    (pa.int64(), [2**63 - 1, -(2**63)], pd.Int64Dtype()),
    (pa.float64(), [1.5, float("inf")], pd.Float64Dtype()),
    (pa.float64(), [1.5, float("nan")], pd.Float64Dtype()),
    (pa.bool_(), [True, False], pd.BooleanDtype()),
    (INSTANT, [SNAPSHOT_AT, SNAPSHOT_AT + timedelta(days=1)], pd.DatetimeTZDtype("ms", "UTC")),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b"], None),
    (pa.dictionary(pa.int8(), pa.string(), ordered=True), ["a", "b"], None),
]


@pytest.mark.parametrize("chunks", [[], [["some"]], [["none"]], [["all"], ["none"]], [["some", "all"], [], ["none"]]])
@pytest.mark.parametrize(("kind", "values", "dtype"), COLUMNS)
def test_chunked_column_equals_the_conversion_of_pandas(chunks, kind, values, dtype):
    cells = {"some": [values[0], None, values[1]], "none": [None, None], "all": values}
    parts = [[cell for each in chunk for cell in cells[each]] for chunk in chunks]
    # Each sample is in the middle of a longer text.
    column = pa.chunked_array([_array([*values, *part, *values], kind).slice(2, len(part)) for part in parts], kind)
    made = to_frame(pa.table({"a": column}), {})["a"]
    by_pandas = column.unify_dictionaries().to_pandas(types_mapper=lambda _: dtype)
    if isinstance(made.dtype, pd.CategoricalDtype) and not len(by_pandas.dtype.categories):
        assert len(made.dtype.categories) == 0
        by_pandas = by_pandas.astype(made.dtype)
    pd.testing.assert_series_equal(made, by_pandas, check_names=False, check_exact=True)
    if len(made):
        made.iloc[0] = None
        assert made.isna().iloc[0]
