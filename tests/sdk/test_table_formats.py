"""Arrow and Polars tables, and their consumers: the same rows, types and metadata as with pandas, without pandas."""

import subprocess
import sys

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changed_responses import TEMPERATURE

from mirror_sdk.arrow_tables.columns import metadata_of_table
from mirror_sdk.arrow_tables.events import EVENTS_RAW_SCHEMA, EVENTS_SCHEMA
from mirror_sdk.arrow_tables.polars_frames import polars_frame
from mirror_sdk.arrow_tables.state import STATE_RAW_SCHEMA, STATE_SCHEMA
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames import from_arrow, read_parquet, to_arrow
from mirror_sdk.recording import Recording

STATE, EVENTS = (STATE_SCHEMA, STATE_RAW_SCHEMA), (EVENTS_SCHEMA, EVENTS_RAW_SCHEMA)
WAYS = {
    "snapshot": (lambda client, **options: client.fleet.snapshot(**options), STATE),
    "state_frame": (lambda client, **options: client.state_frame(**options), STATE),
    "events_frame": (
        lambda client, **options: client.notifications.events_frame(after=0, timeout=0, **options),
        EVENTS,
    ),
}
FORMS = ("pandas", "arrow", "polars")
OF_NOW = ["received_at"]
"""Columns by the local clock, which advances between two calls."""


@pytest.fixture
def fleet(client, simulator, ids):
    """A fleet with values, with finished writes and a pending one, and with events."""
    client.requests.begin_write(ids[3], TEMPERATURE, 20, allow_read_only=True)
    events = client.events(timeout=60, limit=4)
    client.subscribe(ids[0], TEMPERATURE)
    simulator.register(ids[1])
    client.read_value(ids[1], TEMPERATURE)
    client.requests.begin_read(ids[0], "/3303/0/5701").result()
    assert len(list(events)) == 4
    return ids


def rows_of(table):
    return [{name: cell for name, cell in row.items() if name not in OF_NOW} for row in table]


@pytest.mark.parametrize(("raw", "tz"), [(False, "Europe/Berlin"), (True, None)])
def test_every_form_has_the_same_rows_types_and_basis(client, fleet, raw, tz):
    for query, schemas in WAYS.values():
        frame, table, polars = (query(client, raw=raw, tz=tz, as_=form) for form in FORMS)
        assert len(frame) > 3
        assert table.schema.names == schemas[raw].names == polars.columns
        assert tz is not None or table.schema.equals(schemas[raw])
        restored = from_arrow(table)
        pd.testing.assert_frame_equal(*(one.drop(columns=OF_NOW, errors="ignore") for one in (restored, frame)))
        assert restored.attrs == frame.attrs
        assert metadata_of_table(table) == frame.attrs["mirror"]
        assert rows_of(polars.to_dicts()) == rows_of(table.to_pylist())
        types = polars.schema
        assert types["device_id"] == types["path"] == pl.Categorical
        assert types["value_kind"].categories[0] == "number"
        times = [kind for name, kind in types.items() if name.endswith("_at")]
        assert times == [pl.Datetime("ms", tz or "UTC")] * len(times) != []
    state = client.fleet.snapshot(as_="polars")
    assert set(state.filter(pl.col("desired_status") < "success")["desired_status"]) == {"pending"}


def test_empty_table_has_the_same_columns_and_invalid_form_is_rejected(client):
    for query, (schema, _) in WAYS.values():
        frame, table, polars = (query(client, as_=form) for form in FORMS)
        assert (len(frame), table.num_rows, polars.height) == (0, 0, 0)
        assert table.schema.equals(schema)
        assert polars.columns == table.column_names
        pd.testing.assert_frame_equal(from_arrow(table), frame)
        with pytest.raises(InvalidValue, match="as_='numpy' must be one of 'pandas', 'arrow', 'polars'"):
            query(client, as_="numpy")
        for form in ("arrow", "polars"):
            with pytest.raises(InvalidValue, match="tz='Nowhere' is not a time zone"):
                query(client, as_=form, tz="Nowhere")
    with pytest.raises(InvalidValue, match="must be one of"):
        read_parquet("none.parquet", as_="numpy")


@pytest.mark.parametrize("tz", [None, "Europe/Berlin"])
def test_metadata_survive_parquet(client, fleet, tmp_path, tz):
    frame, table = client.fleet.snapshot(raw=True, tz=tz), client.fleet.snapshot(raw=True, tz=tz, as_="arrow")
    pq.write_table(table, tmp_path / "arrow.parquet")
    frame.to_parquet(tmp_path / "pandas.parquet")
    for name in ("arrow.parquet", "pandas.parquet"):
        restored = read_parquet(tmp_path / name)
        pd.testing.assert_frame_equal(restored, frame)
        assert restored.attrs == frame.attrs
        again = read_parquet(tmp_path / name, as_="arrow")
        assert metadata_of_table(again) == frame.attrs["mirror"]
        assert again.to_pylist() == table.to_pylist()
        assert read_parquet(tmp_path / name, as_="polars").to_dicts() == table.to_pylist()
    assert read_parquet(tmp_path / "arrow.parquet", columns=["path"], as_="arrow").column_names == ["path"]
    pd.testing.assert_frame_equal(read_parquet(tmp_path / "arrow.parquet").mirror.refresh(client), frame)


def test_parquet_file_of_polars_is_read(client, fleet, tmp_path):
    client.fleet.snapshot(as_="polars").write_parquet(tmp_path / "polars.parquet")
    frame = read_parquet(tmp_path / "polars.parquet")
    expected = client.fleet.snapshot()
    cells, expected_cells = (one.astype(object).where(one.notna(), None).values.tolist() for one in (frame, expected))
    assert (frame.columns.tolist(), cells) == (expected.columns.tolist(), expected_cells)
    assert frame["reported_revision"].dtype == "Int64"
    assert frame["reported_num"].dtype == "Float64"
    assert isinstance(frame["path"].dtype, pd.CategoricalDtype)
    pd.testing.assert_frame_equal(frame, from_arrow(pl.read_parquet(tmp_path / "polars.parquet")))


STATUSES = ["pending", None, "failure", "success", "pending"]
STATUS = STATE_SCHEMA.field("desired_status")


def test_fixed_categories_in_other_orders_and_types_are_read():
    """Read files of other programs, with categories in another order, in chunks, or as texts."""
    texts = pa.array(STATUSES)
    for parts in ([texts.dictionary_encode()], [part.dictionary_encode() for part in (texts[:2], texts[2:])], [texts]):
        column = pa.chunked_array(parts)
        table = pa.table([column], schema=pa.schema([STATUS.with_type(column.type)]))
        found = polars_frame(table)["desired_status"]
        assert found.to_list() == STATUSES
        assert found.dtype == pl.Enum(["pending", "success", "failure"])


DUCKDB_TYPES = {"device_id": "VARCHAR", "object_id": "INTEGER", "reported_num": "DOUBLE", "reported_bool": "BOOLEAN"}
DUCKDB_TYPES |= {"reported_at": "TIMESTAMP WITH TIME ZONE", "reported_revision": "BIGINT"}


def test_duckdb_reads_each_form_directly(client, fleet):
    arrow = client.fleet.snapshot(as_="arrow")
    names = ["device_id", "path", "value_kind", "reported_num", "reported_bool", "subscribed", "reported_revision"]
    milliseconds = arrow["reported_at"].cast(pa.int64())
    expected = list(zip(*(column.to_pylist() for column in [*arrow.select(names).columns, milliseconds]), strict=True))
    for form in FORMS:
        state = client.fleet.snapshot(as_=form)  # noqa: F841 - DuckDB finds it by its name
        found = duckdb.sql("select * from state")
        types = dict(zip(found.columns, map(str, found.types), strict=True))
        assert {name: types[name].partition("(")[0].replace("ENUM", "VARCHAR") for name in DUCKDB_TYPES} == DUCKDB_TYPES
        assert duckdb.sql(f"select {', '.join(names)}, epoch_ms(reported_at) from state").fetchall() == expected
    requests = client.requests.frame([client.requests.begin_read(fleet[0], TEMPERATURE)])
    assert pl.DataFrame(to_arrow(requests)).schema["latency"] == pl.Duration("ms")
    assert duckdb.sql("select latency from requests").fetchall() != []


class ArrowStreamOnly:
    """An object that exports its columns to Arrow."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_its_stream_alone_is_enough(client, fleet):
    arrow = client.fleet.snapshot(as_="arrow", tz="Europe/Berlin", raw=True)
    for form in FORMS:
        state = client.fleet.snapshot(as_=form, tz="Europe/Berlin", raw=True)
        polars = pl.DataFrame(ArrowStreamOnly(state))
        assert polars.to_dicts() == arrow.to_pylist()
        assert polars.schema["reported_at"] == pl.Datetime("ms", "Europe/Berlin")
        assert polars.schema["path"] in (pl.Categorical, pl.Enum)
        assert polars.schema["reported_revision"] == pl.Int64
        assert from_arrow(ArrowStreamOnly(state))["reported_num"].tolist() == from_arrow(arrow)["reported_num"].tolist()


def test_a_recording_has_all_forms(client, simulator, fleet, tmp_path):
    with client.record(tmp_path / "run.parquet"):
        client.subscriptions.rules.replace([{"resource_path": [TEMPERATURE]}], apply_now=True)
        simulator.set_value(fleet[0], TEMPERATURE, 30)
    recording, now = Recording(tmp_path / "run.parquet"), simulator.get_clock()
    begin = pd.Timestamp(recording.audit().from_at)
    for query in (
        lambda **options: recording.events(raw=True, **options),
        lambda **options: recording.as_of(now, **options),
        lambda **options: recording.changes(begin, now, **options),
    ):
        frame, table, polars = (query(as_=form, tz="Europe/Berlin") for form in FORMS)
        pd.testing.assert_frame_equal(from_arrow(table), frame)
        assert from_arrow(table).attrs == frame.attrs
        assert polars.to_dicts() == table.to_pylist()


WITHOUT_PANDAS = """
import sys
from pathlib import Path
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError("there is no pandas", name="pandas")
sys.meta_path.insert(0, NoPandas())
from mirror_sdk.testing.mirror import Mirror
with Mirror(Path(sys.argv[1])) as mirror:
    client = mirror.new_client()
    mirror.add_fleet(3)
    for form in ("arrow", "polars"):
        print(form, len(client.fleet.snapshot(as_=form)),
              len(client.state_frame(raw=True, tz="Europe/Berlin", as_=form)),
              len(client.notifications.events_frame(after=0, timeout=0, as_=form)))
"""


def test_arrow_and_polars_need_no_pandas(tmp_path):
    """If pandas is installed, pyarrow itself imports it with its first array. Nothing in this package does."""
    command = [sys.executable, "-c", WITHOUT_PANDAS, str(tmp_path)]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    (arrow, polars) = found.stdout.splitlines()
    assert arrow.removeprefix("arrow ") == polars.removeprefix("polars "), found.stderr
    assert "0" not in arrow.split()
