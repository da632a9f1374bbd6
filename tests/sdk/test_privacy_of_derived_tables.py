"""Pseudonyms in tables that were computed from others: no column keeps an exact value of a personal resource."""

import numbers
from datetime import timedelta
from decimal import Decimal
from functools import cache
from itertools import product

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from reference_history import BEGIN, Row, frame_of
from resource_paths import TEMPERATURE

from mirror_sdk.frames import mirror
from mirror_sdk.privacy import pseudonymize

KEY = "a key that is hard to guess, of November"
COORDINATES = {
    "/6/0/0": (52.5162746, 52.5297531),
    "/6/0/1": (13.3777041, 13.3889117),
    "/6/0/2": (34.2718, 37.9061),
    "/4/0/8": (26201337.0, 26201555.0),
}
PERSONAL = {number for pair in COORDINATES.values() for number in (*pair, pair[1] - pair[0])}


def history():
    """Return rows with two reports of each resource in each of two hours."""
    reported = {**COORDINATES, TEMPERATURE: (21.53, 21.77)}
    times = [(hour, index) for hour in range(2) for index in range(2)]
    rows = [
        Row("reported", "d1", path, 3600 * hour + 1200 * index, pair[index] + hour, order=4 * hour + index + 1)
        for path, pair in reported.items()
        for hour, index in times
    ]
    return frame_of(rows).assign(endpoint_name="anna")


@cache
def derived_tables():
    rows, end = history(), BEGIN + timedelta(hours=2)
    hours = rows.mirror.resample("1h", ["last", "min", "max", "time_weighted_mean", "count"], begin=BEGIN, end=end)
    locations, rest = rows[rows["path"] == "/6/0/0"], rows[rows["path"] == TEMPERATURE]
    narrow = hours[hours["path"] != TEMPERATURE]
    on_hours = {"on": ["device_id", "path", "bin"]}
    return {
        "compare": rows.mirror.compare(BEGIN, BEGIN + timedelta(hours=1), "1h", how="last"),
        "rates": rows.mirror.rates("/6/*", begin=BEGIN, end=end),
        "rates by bin": rows.mirror.rates("*", bin="1h", begin=BEGIN, end=end),
        "resample": hours,
        "unchanged": rows.mirror.unchanged("1min", begin=BEGIN, end=end),
        "align": rows.mirror.align(on="1h", how="last", begin=BEGIN, end=end),
        "own column": hours.assign(
            doubled=hours["last"] * 2, micro=(hours["last"] * 1e6), exact=hours["last"].astype("string")
        ),
        "statistics of pandas": hours.groupby(["device_id", "path"], observed=True)["last"].describe().reset_index(),
        "join": hours.mirror.join(hours, **on_hours),
        "join with another suffix": hours.mirror.join(hours, suffix="-b", **on_hours),
        "join by device": rest.mirror.join(locations, on="device_id"),
        "join by device, other side": locations.mirror.join(rest, on="device_id"),
        "merge": rest.merge(locations, on="device_id"),
        "wide join": rows.mirror.align(on="1h", how="last", begin=BEGIN, end=end).mirror.join(
            rows.mirror.align(on="1h", how="min", begin=BEGIN, end=end), on=["device_id", "bin"]
        ),
        "other name of the path": hours.rename(columns={"path": "path_here"}),
        "path in the index": hours.set_index(["device_id", "path"]),
        "bins of pandas": narrow.assign(within=pd.cut(narrow["last"].astype(float), [0, 13.3777041, 52.5162746, 1e9])),
    }


def exact(number):
    """Return whether a number is one of the exact numbers, also an hour later or in another scale."""
    personal_numbers = [(one + hour) * scale for one in PERSONAL for hour in (0, 1) for scale in (1, 2, 1e6)]
    return any(abs(float(number) - one) < 1e-7 for one in personal_numbers)


def exact_numbers(frame):
    """Return the exact numbers that remain, also within texts and bins."""
    flat = frame.reset_index()
    cells = [cell for column in range(flat.shape[1]) for cell in flat.iloc[:, column].dropna().tolist()]
    cells += [edge for cell in cells if isinstance(cell, pd.Interval) for edge in (cell.left, cell.right)]
    real_numbers = [cell for cell in cells if isinstance(cell, numbers.Real) and not isinstance(cell, bool)]
    return [one for one in real_numbers if exact(one)] + [
        cell for cell in cells if isinstance(cell, str) and any(str(one) in cell for one in PERSONAL)
    ]


@pytest.mark.parametrize("name", derived_tables())
def test_no_derived_table_keeps_an_exact_coordinate(name):
    frame = derived_tables()[name]
    assert exact_numbers(frame)
    assert exact_numbers(mirror(frame).pseudonymize(KEY)) == []
    if name != "bins of pandas":
        table = pa.Table.from_pandas(frame.reset_index(), preserve_index=False)
        assert exact_numbers(pseudonymize(table, KEY).to_pandas()) == []
        assert exact_numbers(pseudonymize(pl.from_arrow(table), KEY).to_pandas()) == []


def test_numbers_of_other_resources_stay_in_derived_tables():
    tables = derived_tables()
    for name in ("compare", "rates", "rates by bin", "resample", "join", "own column"):
        table = tables[name][tables[name]["path"] == TEMPERATURE].drop(columns="exact", errors="ignore")
        shared = mirror(table).pseudonymize(KEY)
        named = ["device_id", "endpoint_name", "endpoint_name_other"]
        plain, pseudonymized = (one.drop(columns=named, errors="ignore") for one in (table, shared))
        pd.testing.assert_frame_equal(pseudonymized, plain, check_categorical=False)
    # A value of a joined table is treated according to its own path.
    shared = mirror(tables["join by device, other side"]).pseudonymize(KEY)
    assert set(shared["value_num_other"]) == {21.53, 21.77, 22.53, 22.77}


def test_times_counts_and_revisions_stay():
    hours = derived_tables()["resample"]
    shared = mirror(hours).pseudonymize(KEY)
    for column in ("bin", "count", "covered"):
        pd.testing.assert_series_equal(shared[column], hours[column])
    rows = history()
    pd.testing.assert_series_equal(mirror(rows).pseudonymize(KEY)["revision"], rows["revision"])


def forms_of(column, path):
    """Return the same values in every form of a table, and for pandas in every suitable dtype."""
    columns = {"device_id": ["d1", "d2", "d3"], "path": [path] * 3}
    table = pa.table({**columns, "reported_num": column, "last_other": column})
    frame = table.to_pandas()
    objects = frame.astype({"reported_num": object, "last_other": object})
    arrow_dtypes = table.to_pandas(types_mapper=pd.ArrowDtype)
    return [table, pl.from_arrow(table), arrow_dtypes, frame, frame.convert_dtypes(), objects]


KINDS = {
    "boolean": ([True, False], [pa.bool_()]),
    "number": ([52.5162746, 13.3777041], [pa.float64(), pa.float32()]),
    "integer": ([26201337, 26201555], [pa.int64(), pa.int32(), pa.uint32(), pa.float64()]),
    "text": (["SN-4711", "SN-0815"], [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]),
    "bytes": ([b"SN-4711", b"SN-0815"], [pa.binary()]),
    "time": ([BEGIN, BEGIN + timedelta(hours=1)], [pa.timestamp("ms", tz="UTC")]),
    "decimal": ([Decimal("52.5162746"), Decimal("13.3777041")], [pa.decimal128(18, 7)]),
    "missing": ([None, None], [pa.bool_(), pa.string()]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_of_value_is_replaced_in_every_library(kind):
    values, arrow_types = KINDS[kind]
    for path, arrow_type, last in product(("/6/0/0", "/3/0/2", "/9999/0/1"), arrow_types, (None, values[0])):
        for table in forms_of(pa.array([*values, last], arrow_type), path):
            shared = pseudonymize(table, KEY)
            assert len(shared) == 3
            if path != "/9999/0/1" and kind in ("number", "integer", "text", "bytes", "decimal"):
                rows = shared.to_pylist() if isinstance(shared, pa.Table) else pl.DataFrame(shared).to_dicts()
                cells = [row[name] for row in rows for name in ("reported_num", "last_other")]
                assert not any(cell is not None and cell == value for cell in cells for value in values)


def test_ids_that_became_numbers_are_replaced():
    table = pa.table({"device_id": [12, 13], "device_id_count": [1, 2]})
    assert not {12, 13} & set(pseudonymize(table, KEY)["device_id"].to_pylist())
    for frame in (pl.from_arrow(table), table.to_pandas()):
        assert not {12, 13} & set(pseudonymize(frame, KEY)["device_id"].to_list())
