"""Tables for Arrow and Polars, and what takes them: the same rows, types and basis as for pandas, without pandas."""

import subprocess
import sys

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changed_answers import TEMPERATURE

from mirror_sdk.errors import ValueRefused
from mirror_sdk.frames import from_arrow, read_parquet, to_arrow
from mirror_sdk.recording import Recording, read_recording
from mirror_sdk.tables.columns import basis_of_table
from mirror_sdk.tables.events import EVENTS_RAW_SCHEMA, EVENTS_SCHEMA
from mirror_sdk.tables.polars_frames import polars_frame
from mirror_sdk.tables.state import STATE_RAW_SCHEMA, STATE_SCHEMA

URL = "http://mirror.localhost"
WAYS = {
    "snapshot": lambda client, **options: client.snapshot(**options),
    "state_frame": lambda client, **options: client.state_frame(**options),
    "events_frame": lambda client, **options: client.events_frame(after=0, timeout=0, **options),
}
SCHEMAS = {
    ("snapshot", False): STATE_SCHEMA,
    ("snapshot", True): STATE_RAW_SCHEMA,
    ("state_frame", False): STATE_SCHEMA,
    ("state_frame", True): STATE_RAW_SCHEMA,
    ("events_frame", False): EVENTS_SCHEMA,
    ("events_frame", True): EVENTS_RAW_SCHEMA,
}
OF_NOW = ["received_at"]
"""By the clock here, which goes on between two calls."""


@pytest.fixture
def fleet(client, bench, ids):
    """A fleet with values, with writes that are done and one that waits, and with events."""
    client.begin_write(ids[3], TEMPERATURE, 20, allow_read_only=True)
    events = client.events(timeout=60, limit=4)
    client.subscribe(ids[0], TEMPERATURE)
    bench.register(ids[1])
    client.read_value(ids[1], TEMPERATURE)
    client.begin_read(ids[0], "/3303/0/5701").result()
    assert len(list(events)) == 4
    return ids


def rows_of(table):
    return [{name: cell for name, cell in row.items() if name not in OF_NOW} for row in table]


@pytest.mark.parametrize("tz", [None, "Europe/Berlin"])
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_every_form_has_the_same_rows_types_and_basis(client, fleet, way, raw, tz):
    frame, table, polars = (WAYS[way](client, raw=raw, tz=tz, as_=form) for form in ("pandas", "arrow", "polars"))
    assert len(frame) > 3
    schema = SCHEMAS[way, raw]
    assert table.schema.names == schema.names == polars.columns
    if tz is None:
        assert table.schema.equals(schema)
    kept = from_arrow(table)
    pd.testing.assert_frame_equal(*(one.drop(columns=OF_NOW, errors="ignore") for one in (kept, frame)))
    assert kept.attrs == frame.attrs
    assert basis_of_table(table) == frame.attrs["mirror"]
    assert rows_of(polars.to_dicts()) == rows_of(table.to_pylist())


@pytest.mark.parametrize("way", WAYS)
def test_polars_has_types_of_its_own(client, fleet, way):
    schema = WAYS[way](client, as_="polars", tz="Europe/Berlin").schema
    assert schema["device_id"] == schema["path"] == pl.Categorical
    kinds = schema["value_kind"]
    assert isinstance(kinds, pl.Enum)
    assert kinds.categories[0] == "number"
    times = [kind for name, kind in schema.items() if name.endswith("_at")]
    assert times == [pl.Datetime("ms", "Europe/Berlin")] * len(times) != []


def test_the_order_of_a_status_is_known_to_polars(client, fleet):
    state = client.snapshot(as_="polars")
    assert set(state.filter(pl.col("desired_status") < "success")["desired_status"]) == {"pending"}


@pytest.mark.parametrize("way", WAYS)
def test_without_any_rows_the_columns_are_the_same(client, way):
    frame, table, polars = (WAYS[way](client, as_=form) for form in ("pandas", "arrow", "polars"))
    assert (len(frame), table.num_rows, polars.height) == (0, 0, 0)
    assert table.schema.equals(SCHEMAS[way, False])
    assert polars.columns == table.column_names
    pd.testing.assert_frame_equal(from_arrow(table), frame)


@pytest.mark.parametrize("tz", [None, "Europe/Berlin"])
def test_what_it_is_based_on_travels_through_parquet(client, fleet, tmp_path, tz):
    frame, table = client.snapshot(raw=True, tz=tz), client.snapshot(raw=True, tz=tz, as_="arrow")
    pq.write_table(table, tmp_path / "arrow.parquet")
    frame.to_parquet(tmp_path / "pandas.parquet")
    for name in ("arrow.parquet", "pandas.parquet"):
        kept = read_parquet(tmp_path / name)
        pd.testing.assert_frame_equal(kept, frame)
        assert kept.attrs == frame.attrs
        again = read_parquet(tmp_path / name, as_="arrow")
        assert basis_of_table(again) == frame.attrs["mirror"]
        assert again.to_pylist() == table.to_pylist()
        assert read_parquet(tmp_path / name, as_="polars").to_dicts() == table.to_pylist()
    assert read_parquet(tmp_path / "arrow.parquet", columns=["path"], as_="arrow").column_names == ["path"]
    pd.testing.assert_frame_equal(read_parquet(tmp_path / "arrow.parquet").mirror.refresh(client), frame)


def test_what_polars_wrote_is_a_table_too(client, fleet, tmp_path):
    client.snapshot(as_="polars").write_parquet(tmp_path / "polars.parquet")
    frame = read_parquet(tmp_path / "polars.parquet")
    expected = client.snapshot()
    for name in expected:
        assert frame[name].astype(object).where(frame[name].notna(), None).tolist() == (
            expected[name].astype(object).where(expected[name].notna(), None).tolist()
        )
    assert frame["reported_revision"].dtype == "Int64"
    assert frame["reported_num"].dtype == "Float64"
    assert isinstance(frame["path"].dtype, pd.CategoricalDtype)
    pd.testing.assert_frame_equal(frame, from_arrow(pl.read_parquet(tmp_path / "polars.parquet")))


STATUSES = ["pending", None, "failure", "success", "pending"]
STATUS = STATE_SCHEMA.field("desired_status")


@pytest.mark.parametrize(
    "parts",
    [
        [pa.array(STATUSES).dictionary_encode()],
        [pa.array(STATUSES[:2]).dictionary_encode(), pa.array(STATUSES[2:]).dictionary_encode()],
        [pa.array(STATUSES)],
    ],
    ids=["in another order", "in parts", "texts"],
)
def test_fixed_categories_may_be_told_in_other_ways(parts):
    """As files tell them, which others may have written."""
    column = pa.chunked_array(parts)
    table = pa.table([column], schema=pa.schema([STATUS.with_type(column.type)]))
    found = polars_frame(table)["desired_status"]
    assert found.to_list() == STATUSES
    assert found.dtype == pl.Enum(["pending", "success", "failure"])


DUCKDB_TYPES = {
    "device_id": "VARCHAR",
    "object_id": "INTEGER",
    "reported_num": "DOUBLE",
    "reported_bool": "BOOLEAN",
    "reported_at": "TIMESTAMP WITH TIME ZONE",
    "reported_revision": "BIGINT",
}


@pytest.mark.parametrize("form", ["pandas", "arrow", "polars"])
def test_duckdb_takes_it_as_it_is(client, fleet, form):
    state = client.snapshot(as_=form)  # noqa: F841 - DuckDB finds it by its name
    arrow = client.snapshot(as_="arrow")
    found = duckdb.sql("select * from state")
    types = dict(zip(found.columns, map(str, found.types), strict=True))
    assert {name: types[name].partition("(")[0].replace("ENUM", "VARCHAR") for name in DUCKDB_TYPES} == DUCKDB_TYPES
    names = ["device_id", "path", "value_kind", "reported_num", "reported_bool", "subscribed", "reported_revision"]
    epochs = ", ".join(f"epoch_ms({name})" for name in ("reported_at", "requested_at"))
    told = duckdb.sql(f"select {', '.join(names)}, {epochs} from state").fetchall()
    milliseconds = arrow.select(["reported_at", "requested_at"]).cast(
        pa.schema([("reported_at", pa.int64()), ("requested_at", pa.int64())])
    )
    columns = [*arrow.select(names).columns, *milliseconds.columns]
    assert told == list(zip(*(column.to_pylist() for column in columns), strict=True))


class OnlyAStream:
    """What is known of it is that it gives its columns to Arrow."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("form", ["pandas", "arrow", "polars"])
def test_its_stream_alone_is_enough(client, fleet, form):
    state = client.snapshot(as_=form, tz="Europe/Berlin", raw=True)
    arrow = client.snapshot(as_="arrow", tz="Europe/Berlin", raw=True)
    polars = pl.DataFrame(OnlyAStream(state))
    assert polars.to_dicts() == arrow.to_pylist()
    assert polars.schema["reported_at"] == pl.Datetime("ms", "Europe/Berlin")
    assert polars.schema["path"] in (pl.Categorical, pl.Enum)
    assert polars.schema["reported_revision"] == pl.Int64
    assert from_arrow(OnlyAStream(state))["reported_num"].tolist() == client.snapshot()["reported_num"].tolist()


def test_spans_and_missing_ones_arrive(client, fleet):
    requests = client.requests_frame([client.begin_read(fleet[0], TEMPERATURE)])
    assert pl.DataFrame(to_arrow(requests)).schema["latency"] == pl.Duration("ms")
    assert duckdb.sql("select latency from requests").fetchall() != []


def test_a_recording_has_all_forms(client, bench, fleet, tmp_path):
    with client.record(tmp_path / "run.parquet"):
        client.put_presubscriptions([{"resource_path": [TEMPERATURE]}], apply_now=True)
        bench.set_value(fleet[0], TEMPERATURE, 30)
    recording, now = Recording(tmp_path / "run.parquet"), bench.get_clock()
    begin = pd.Timestamp(recording.audit().from_at)
    for ask in (
        lambda **options: recording.events(raw=True, **options),
        lambda **options: read_recording(tmp_path / "run.parquet", **options),
        lambda **options: recording.as_of(now, **options),
        lambda **options: recording.changes(begin, now, **options),
    ):
        frame, table, polars = (ask(as_=form, tz="Europe/Berlin") for form in ("pandas", "arrow", "polars"))
        pd.testing.assert_frame_equal(from_arrow(table), frame)
        assert from_arrow(table).attrs == frame.attrs
        assert polars.to_dicts() == table.to_pylist()


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_form_or_no_zone_is_refused(client, fleet, way):
    with pytest.raises(ValueRefused, match="as_='numpy' is no form of a table; give 'pandas', 'arrow', 'polars'"):
        WAYS[way](client, as_="numpy")
    for form in ("arrow", "polars"):
        with pytest.raises(ValueRefused, match="tz='Nowhere' is no time zone"):
            WAYS[way](client, as_=form, tz="Nowhere")


def test_parquet_in_no_form_is_refused(client, tmp_path):
    with pytest.raises(ValueRefused, match="no form of a table"):
        read_parquet(tmp_path / "none.parquet", as_="numpy")


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
        print(form, len(client.snapshot(as_=form)), len(client.state_frame(raw=True, tz="Europe/Berlin", as_=form)),
              len(client.events_frame(after=0, timeout=0, as_=form)))
"""


def run(program, folder):
    command = [sys.executable, "-c", program, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_arrow_and_polars_need_no_pandas(tmp_path):
    """Where pandas is installed pyarrow itself loads it with its first array; nothing of this package does."""
    found = run(WITHOUT_PANDAS, tmp_path)
    (arrow, polars) = found.stdout.splitlines()
    assert arrow.removeprefix("arrow ") == polars.removeprefix("polars "), found.stderr
    assert "0" not in arrow.split()


IMPORTS = """
import sys
import mirror_sdk.snapshot.table, mirror_sdk.snapshot.reading, mirror_sdk.tables.events, mirror_sdk.tables.one_by_one
import mirror_sdk.tables.polars_frames
print("pandas" in sys.modules)
"""


def test_no_module_on_the_way_loads_pandas(tmp_path):
    assert run(IMPORTS, tmp_path).stdout == "False\n"


NOT_THERE = """
import sys
sys.modules["polars"] = None
from mirror_sdk import MirrorClient
client = MirrorClient("http://127.0.0.1:9", "key")
for ask in (client.snapshot, client.state_frame):
    try:
        ask(as_="polars")
    except ImportError as error:
        print(error)
"""


def test_without_polars_it_says_what_to_install_and_asks_for_nothing(tmp_path):
    found = run(NOT_THERE, tmp_path)
    told = 'tables for Polars need polars: pip install "device-state-mirror[polars]"\n'
    assert found.stdout == told * 2, found.stderr
