"""SQL queries of a recording, a snapshot dataset and the archive of a history."""

from datetime import UTC, datetime
from itertools import repeat
from types import MappingProxyType

import pyarrow as pa
import pytest
from client_test_data import DIMMER, SENSOR
from resource_paths import LEVEL, TEMPERATURE

from mirror_sdk import InvalidValue
from mirror_sdk.sql import HistoryArchive
from mirror_sdk.sql.queryable import Queryable


@pytest.fixture
def recording(client, simulator, tmp_path):
    simulator.add_device("light", [SENSOR, DIMMER])
    with client.record(tmp_path / "run.parquet", paths=["/3303/*"], subscribe=True) as recorder:
        for value in (20, 22, 27):
            simulator.advance(60)
            simulator.set_value("light", TEMPERATURE, value)
    return recorder.recording


def test_recording_has_the_rows_of_its_tables(recording):
    query = f"select avg(value_num) as mean from history where path = '{TEMPERATURE}' and value_num < 25"
    history = recording.history(paths=[TEMPERATURE])
    assert recording.sql(query)["mean"].tolist() == [history["value_num"][history["value_num"] < 25].mean()]
    assert recording.sql("from events")["event"].tolist() == recording.events()["event"].tolist()
    assert recording.sql("from history", as_="arrow").to_pylist() == recording.history(as_="arrow").to_pylist()
    for instant in ("90s", "1s"):
        found = recording.sql(f"from as_of('{instant}') where path = '{TEMPERATURE}'")
        assert found["reported_num"].tolist() == recording.as_of(instant, paths=[TEMPERATURE])["reported_num"].tolist()
    assert recording.sql("select after_num from changes('90s')")["after_num"].tolist() == [27.0]
    assert recording.sql("select reported_num from state where path like '/3303%'")["reported_num"].tolist() == [27.0]


def test_now_of_a_recording_is_its_end(recording):
    end = recording.audit().until_at
    assert recording.sql("select now() as now", as_="arrow")["now"].to_pylist() == [end]
    assert recording.sql("select count(*) as n from history where changed_at > now() - interval 1 minute")["n"][0] == 1


def test_error_lists_the_views_of_the_source(recording):
    with pytest.raises(InvalidValue, match=r"no view 'devices'.*this recording has history, events, state, as_of"):
        recording.sql("from devices")
    with pytest.raises(InvalidValue, match="max_rows=2"):
        recording.sql("from history", max_rows=2)


def test_dataset_has_the_rows_of_the_snapshot(client, simulator, tmp_path):
    for number in range(3):
        simulator.add_device(f"light-{number}", [SENSOR, DIMMER])
    client.write_value("light-1", LEVEL, 40)
    dataset = client.fleet.dataset(tmp_path / "fleet", devices_per_file=2, tz="Europe/Berlin")
    snapshot = client.fleet.snapshot(as_="arrow")
    assert dataset.sql("from state", as_="arrow").to_pylist() == snapshot.to_pylist()
    found = dataset.sql(f"select endpoint_name from state where path = '{LEVEL}' and endpoint_name > 'light-1'")
    assert found["endpoint_name"].tolist() == ["light-2"]
    assert dataset.sql("select endpoint_name, kind from drift").values.tolist() == [["light-1", "never_reported"]]
    assert dataset.sql("select now() as now")["now"][0].isoformat() == f"{simulator.get_clock().isoformat()}"
    assert "endpoint_name" in dataset.sql("from state where endpoint_name = 'x'", explain=True)["fetched"][0]
    with pytest.raises(InvalidValue, match="would fetch at least 6 rows"):
        dataset.sql("from state", max_rows=5)
    with pytest.raises(InvalidValue, match="this dataset has no as_of"):
        dataset.sql("from as_of('1h')")


class _ManyRows(Queryable):
    """A source whose rows never end."""

    name = server = "a test"
    views = MappingProxyType({"state": pa.schema([pa.field("n", pa.int64())])})
    functions = MappingProxyType({})

    def _views(self):
        return self

    def now(self):
        return datetime(2026, 1, 5, tzinfo=UTC)

    def expected_rows(self, scan):
        return 1_000_000

    def open(self, scan):
        return repeat(pa.table({"n": [1, 2, 3]}))


def test_query_with_a_limit_ends_when_it_has_enough_rows():
    assert len(_ManyRows().sql("from state limit 5", max_rows=100_000)) == 5
    for rest in ("", "order by n limit 5", "group by all limit 5"):
        with pytest.raises(InvalidValue, match="would fetch at least 1000000 rows"):
            _ManyRows().sql(f"select n from state {rest}", max_rows=100_000)
    with pytest.raises(InvalidValue, match="fetches more than max_rows=1000"):
        _ManyRows().sql("select count(*) from state limit 1", max_rows=1000)


def test_folder_that_is_not_an_archive_is_rejected(tmp_path):
    with pytest.raises(InvalidValue, match="is not the archive of a history"):
        HistoryArchive(tmp_path)
