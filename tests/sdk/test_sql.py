"""SQL queries of a client: their results, the conditions that are sent, and the errors."""

import asyncio
import math
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from client_test_data import DIMMER, LAMP, SENSOR, URL
from pandas.testing import assert_frame_equal
from resource_paths import LEVEL, TEMPERATURE

from mirror_sdk import AsyncMirrorClient, BeforeHistory, CallTimeout, InvalidValue, NoHistory
from mirror_sdk._protocol.async_sender import AsyncSender
from mirror_sdk._protocol.sender import Sender
from mirror_sdk.sql.conditions import text_after

pytestmark = pytest.mark.keeps_history

QUERIES = 200
UNIT = "/3303/0/5701"
VIEWS = {
    "history": ["device_id", "endpoint_name", "path", "event", "value_num", "revision"],
    "state": ["device_id", "endpoint_name", "path", "reported_num", "resource_id"],
    "devices": ["device_id", "endpoint_name", "endpoint_type", "state"],
    "drift": ["device_id", "endpoint_name", "path", "kind"],
    "device_events": ["device_id", "endpoint_name", "event"],
    "events": ["device_id", "endpoint_name", "path", "event", "value_num"],
    "requests": ["device_id", "endpoint_name", "path", "requested_num"],
}


@pytest.fixture
def fleet(client, simulator):
    """Four lights, whose temperature has changed each minute for three minutes."""
    sensor_in_fahrenheit = {"path": UNIT, "value": "F", "observable": True}
    for number in range(4):
        own = [DIMMER, LAMP, SENSOR, *([sensor_in_fahrenheit] if number == 3 else [])]
        simulator.add_device(f"light-{number}", own, endpoint_type="Light" if number else "Lamp")
    client.devices.update("light-1", attributes={"site": "Berlin"})
    client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}], apply_now=True)
    for step in range(3):
        simulator.advance(60)
        for number in range(4):
            simulator.set_value(f"light-{number}", TEMPERATURE, 20 + number + step)
    client.write_value("light-1", LEVEL, 40)
    simulator.set_online("light-3", False)
    client.requests.begin_read("light-3", LEVEL)
    return {one.endpoint_name: one.id for one in client.devices.list()}


@pytest.fixture
def complete(client, fleet):
    """A plain DuckDB database with the complete tables."""
    tables = {
        "history": client.history(as_="arrow"),
        "state": client.fleet.snapshot(as_="arrow"),
        "devices": pa.Table.from_pandas(client.devices.list().to_frame()),
        "drift": pa.Table.from_pandas(client.fleet.snapshot().mirror.drift()),
        "device_events": pa.Table.from_pandas(client.devices.events_frame()),
        "events": client.notifications.events_frame(after=0, timeout=0, as_="arrow"),
        "requests": pa.Table.from_pandas(client.requests.frame().drop(columns="latency")),
    }
    database = duckdb.connect()
    database.execute("set TimeZone = 'UTC'")
    for name, table in tables.items():
        database.register(name, table)
    yield database
    database.close()


def random_query(rng, fleet, begin):
    """Return a query with random conditions, some of which can be sent to the service."""
    ids, names = list(fleet.values()), list(fleet)
    # Half of them are times of changes.
    instants = [begin + rng.choice([timedelta(seconds=rng.randrange(-60, 300)), timedelta(minutes=1)]) for _ in "12"]
    text = {
        "device_id": [*ids, "unknown"],
        "endpoint_name": [*names, "nobody"],
        "path": [TEMPERATURE, UNIT, LEVEL, "/3311/0/5850", "/9/9/9", "no path"],
        "event": ["reported", "write", "registration"],
        "endpoint_type": ["Light", "Lamp"],
        "kind": ["never_reported", "failed"],
        "state": ["registered"],
    }

    def condition(view, prefix=""):
        columns = [*VIEWS[view], *(["changed_at"] * 2 if view in {"history", "device_events"} else [])]
        name = rng.choice(columns)
        column, operator = prefix + name, rng.choice([">", ">=", "<", "<="])
        if name == "changed_at":
            first, last = (f"timestamptz '{one.isoformat()}'" for one in instants)
            return rng.choice([f"{column} {operator} {first}", f"{column} between {first} and {last}"])
        if name not in text:
            return rng.choice([f"{column} > 21", f"{column} is null", f"{column} in (21, 23)"])
        one, other = (rng.choice(text[name]) for _ in range(2))
        after = rng.choice([other, text_after(one), text_after(other)])
        return rng.choice(
            [
                f"{column} = '{one}'",
                f"{column} in ('{one}', '{other}')",
                f"{column} <> '{one}'",
                f"{column} like '{one[: rng.randrange(len(one) + 1)]}%'",
                f"{column} not like '{one[:3]}%'",
                f"lower({column}) = '{one}'",
                f"{column} {operator} '{one}'",
                f"{column} between '{one}' and '{after}'",
                f"{column} {rng.choice(['>', '>='])} '{one}' and {column} {rng.choice(['<', '<='])} '{after}'",
                f"{column} is not null",
            ]
        )

    def conditions(view, prefix=""):
        parts = [condition(view, prefix) for _ in range(rng.randrange(4))] or ["true"]
        return " and ".join(f"({part} or {condition(view, prefix)})" if rng.random() < 0.3 else part for part in parts)

    view, other = rng.choice(list(VIEWS)), rng.choice(list(VIEWS))
    columns = ", ".join(VIEWS[view])
    return rng.choice(
        [
            f"select {columns} from {view} where {conditions(view)}",
            f"select {VIEWS[view][1]}, count(*) from {view} where {conditions(view)} group by all",
            f"select x.*, y.endpoint_name from (select {columns} from {view}) x left join {other} y using (device_id)"
            f" where {conditions(view, 'x.').replace('x.changed_at', 'null')}",
            f"select {columns} from {view} where {conditions(view)} and device_id in"
            f" (select device_id from {other} where {conditions(other)})",
            f"with a as (select {columns} from {view} where {conditions(view)}) select count(*) from a, a b"
            " where a.device_id = b.device_id",
            f"select {columns} from {view} where {conditions(view)} union all"
            f" select {columns} from {view} where {conditions(view)}",
        ]
    )


def rows_of(table):
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_random_queries_have_the_rows_of_the_complete_tables(client, fleet, complete, simulator):
    rng = random.Random(20261129)
    begin = simulator.get_clock() - timedelta(seconds=180)
    found = 0
    for _ in range(QUERIES):
        query = random_query(rng, fleet, begin)
        expected = complete.sql(query).to_arrow_table()
        assert rows_of(client.sql(query, as_="arrow")) == rows_of(expected), query
        found += expected.num_rows > 0
    assert found > QUERIES / 3


def fetched(client, query):
    return client.sql(query, explain=True)["fetched"].tolist()


SENT = [
    ("from history where path = '/3303/0/5700' and device_id = 'x'", "id__eq=x, path=/3303/0/5700"),
    ("from history where path like '/3303/%'", "path=/3303/*"),
    ("from state where path in ('/3303/0/5700', '/3311/0/5850')", "path=/3303/0/5700 or /3311/0/5850"),
    ("from devices where endpoint_name in ('b', 'a') and state = 'registered'", None),
    ("from history where changed_at >= now() - interval 1 minute and changed_at < now()", None),
    ("from devices where state = 'offline'", "all rows"),
    ("from devices where state >= 'r'", "all rows"),
    ("from drift where endpoint_name >= 'light-2'", "endpoint_name__gte=light-2"),
    ("from as_of('1m') where device_id = 'x' or device_id = 'y'", "id__in=x,y"),
    ("select * from (from history) where path = '/3303/0/5700'", "path=/3303/0/5700"),
    ("from history where lower(path) = '/3303/0/5700'", "all rows"),
    ("from history where path = '/1/2/3' or value_num > 3", "all rows"),
    ("from device_events where device_id = 'x'", "device_id=x"),
    ("from history where path = '3303/0/5700'", "nothing"),
    ("from state where path between '/3303/0/5700' and '/3303/0/5701'", "all rows"),
    ("from history where changed_at <= '9999-12-31 23:59:59.999Z'", "all rows"),
]


def test_explain_lists_the_conditions_that_are_sent(client, simulator):
    now = simulator.get_clock()
    expected = {
        "from devices": "endpoint_name__in=a,b, state__eq=registered",
        "from history": f"from={now - timedelta(minutes=1):%Y-%m-%dT%H:%M:%S}.000Z, to={now:%Y-%m-%dT%H:%M:%S}.001Z",
    }
    for query, parameters in SENT:
        assert fetched(client, query) == [parameters or expected[query.partition(" where")[0]]]


@pytest.mark.both_clients
def test_conditions_of_a_query_reach_the_service(client, fleet, mirror):
    query = f"select value_num from history where endpoint_name = 'light-2' and path = '{TEMPERATURE}' order by 1"
    assert client.sql(query)["value_num"].tolist() == [21.5, 22.0, 23.0, 24.0]
    explained = client.sql("select unit from history where device_id = 'x' and value_num > 3", explain=True)
    assert "unit" in explained["columns"][0].split(", ")
    assert explained["view"].tolist() == ["history"]
    assert explained["filter"].tolist() == ["device_id = 'x'"]


def test_results_have_the_types_of_the_tables(client, fleet):
    for query, expected in (
        ("from history", client.history()),
        ("from state", client.fleet.snapshot()),
        ("from drift", client.fleet.snapshot().mirror.drift()),
        ("from as_of('1m')", client.as_of("1m")),
        ("from changes('2m')", client.changes("2m")),
        ("from device_events", client.devices.events_frame()),
        ("from requests", client.requests.frame()),
        ("select * exclude (attributes) from devices", client.devices.list().to_frame().iloc[:, :8]),
    ):
        keys = [name for name in ("event_id", "revision", "device_id", "path") if name in expected][:2] or None
        frames = [client.sql(query), expected]
        if keys:
            frames = [one.sort_values(keys).reset_index(drop=True) for one in frames]
        assert_frame_equal(*frames, check_categorical=False, check_like=True)


def test_describe_lists_the_columns_of_a_table_function(client, fleet):
    described = client.sql("describe from changes('1m')")["column_name"].tolist()
    assert described == client.changes("1m").columns.tolist()


def test_age_can_be_an_interval_of_duckdb(client, fleet):
    found = client.sql("from changes('10 minutes')", explain=True)["view"].tolist()
    assert found == client.sql("from changes('10m')", explain=True)["view"].tolist()


def test_instant_before_the_history_is_rejected_with_its_start(client, fleet):
    for table in ("as_of('2020-01-01')", "changes('2020-01-01')"):
        with pytest.raises(
            BeforeHistory, match=r"HISTORY: the requested time is before the start .*, 2026-.*; request"
        ):
            client.sql(f"from {table}")


ENDLESS = "select count(*) from range(1000000) a, range(1000000) b where a.range * b.range % 7 = 3"


@pytest.mark.both_clients
def test_timeout_interrupts_the_query(client):
    with pytest.raises(CallTimeout, match=r"SQL query: the whole call took longer than timeout=0.2 s"):
        client.sql(ENDLESS, timeout=0.2)


def sql_threads():
    return [one for one in threading.enumerate() if one.name.startswith("mirror-sql")]


def test_cancelled_query_ends(run):
    async def scene(client: AsyncMirrorClient):
        query = asyncio.ensure_future(client.sql(ENDLESS))
        while not sql_threads():
            await asyncio.sleep(0)
        query.cancel()
        with pytest.raises(asyncio.CancelledError):
            await query

    run(scene)
    for one in sql_threads():
        one.join(10)
    assert not sql_threads()


def test_missing_times_and_durations(client, fleet):
    pending = client.sql("from requests")
    assert pending[["latency", "finished_at"]].isna().to_numpy().tolist() == [[True, True]]
    assert client.sql("select count(latency) as n, max(latency) as most from requests")["n"].tolist() == [0]
    ages = client.fleet.snapshot().mirror.drift()["age"]
    assert client.sql("from drift")["age"].isna().sum() == ages.isna().sum()


def test_attributes_are_a_map(client, fleet):
    query = "select endpoint_name from devices where attributes['site'] = 'Berlin'"
    assert client.sql(query)["endpoint_name"].tolist() == ["light-1"]
    query = "select attributes from devices where endpoint_name in ('light-0', 'light-1') order by endpoint_name"
    assert client.sql(query)["attributes"].tolist() == [{}, {"site": "Berlin"}]


def test_unknown_words_match_no_device(client, fleet):
    for condition in ("state = 'offline'", "state < 'a'", "endpoint_name = 'a b,&c'", "endpoint_type = 'ä'"):
        assert len(client.sql(f"from devices where {condition}")) == 0
    for path in ("/lamp", "/3303//5700", "//", "/3303/0/5700/", "/ä"):
        assert len(client.sql(f"from state where path = '{path}'")) == 0
        assert len(client.sql(f"from history where path = '{path}'")) == 0


def test_now_is_the_clock_of_the_mirror(client, simulator):
    now = simulator.get_clock()
    query = "select now() as a, current_timestamp as b, today() as c, localtimestamp as d, age(today()) as e"
    row = client.sql(query, as_="arrow").to_pylist()[0]
    assert row == {"a": now, "b": now, "c": now.date(), "d": now.replace(tzinfo=None), "e": timedelta()}


def test_result_kinds(client, fleet):
    query = "select endpoint_name, count(*) as n from state group by all order by all"
    frame = client.sql(query)
    assert frame["n"].tolist() == [3, 3, 3, 4]
    assert frame.attrs["mirror"]["server"] == URL
    assert client.sql(query, as_="arrow")["n"].to_pylist() == [3, 3, 3, 4]
    assert client.sql(query, as_="polars")["n"].to_list() == [3, 3, 3, 4]
    assert client.sql(query, as_="duckdb").filter("n > 3").fetchall() == [("light-3", 4)]
    with pytest.raises(InvalidValue, match="as_='excel'"):
        client.sql(query, as_="excel")


@pytest.mark.both_clients
def test_units_that_devices_reported(client, fleet):
    query = f"select distinct unit from history where path = '{TEMPERATURE}' and endpoint_name = 'light-3'"
    assert set(client.sql(query)["unit"].dropna()) == set(client.history(["light-3"], [TEMPERATURE])["unit"].dropna())


def test_joined_columns_have_unique_names(client, fleet):
    assert client.sql("select device_id, device_id from devices limit 1").columns.tolist() == [
        "device_id",
        "device_id_1",
    ]


DOING_MORE = [
    "insert into history values (1)",
    "create table x as from history",
    "drop view history",
    "update state set path = ''",
    "delete from state",
    "attach 'x.db'",
    "copy (select 1) to 'x.csv'",
    "export database 'x'",
    "install httpfs",
    "load httpfs",
    "pragma enable_profiling",
    "set threads = 1",
    "call pragma_version()",
    "explain select 1",
    "select 1; select 2",
    "",
    "from read_csv('/etc/passwd')",
    "from read_parquet('*.parquet')",
    "from glob('/*')",
    "from '/etc/passwd'",
    "from frame",
    "select $1",
    "pivot history on path using count(*)",
]


def test_statements_that_do_more_than_read_views_are_rejected(client, tmp_path, monkeypatch):
    (folder := tmp_path / "empty").mkdir()
    monkeypatch.chdir(folder)
    frame = pd.DataFrame({"secret": [1]})
    for query in DOING_MORE:
        with pytest.raises(InvalidValue):
            client.sql(query)
    assert list(folder.iterdir()) == []
    assert len(frame) == 1


FAULTS = [
    ("select value_nm from history", "'value_nm'; similar: value_num", "select ^"),
    ("select path\nfrom history\nwhere pth = 'x'", "'pth'; similar: path", "where ^"),
    ("select value_nm from history where path like '/3303/%'", "'value_nm'; similar: value_num", "select ^"),
    ("select pth, reported_num from as_of('0s')", "'pth'; similar: path", "select ^"),
    ("from changes('1h', '0s'), historyy", "no view 'historyy'; similar: history", "from changes('1h', '0s'), ^"),
    ("from historyy", "no view 'historyy'; similar: history", "from ^"),
    ("select h.pats from history h", "'pats'; similar: path", "select ^"),
    ("select 1 +\n+ from history where", "syntax error", None),
    ("from history where changed_at > 'yesterday'", "timestamp", None),
    ("from as_of(3)", "as_of: instant must be a constant time", "from ^"),
    ("from as_of('2h', '1h')", "as_of takes instant, got 2 arguments", "from ^"),
    ("select\nkind, count(*) from history group by kind", "'kind'; similar: value_kind", None),
    ("select x.kind from drift join state x using (device_id)", "'kind'; similar: value_kind", "select ^"),
    ("select date_trunc('hour', time) from history group by 1", "'time'; similar: changed_at\n", None),
    ("select zzzz from device_events", "there are 7, and none is similar", "select ^"),
    ("select name from devices where state = ''", "'name'; similar: endpoint_name\n", "select ^"),
    ("select value from as_of('1m')", "'value'; similar: reported_num\n", "select ^"),
    ("select id from history", "'id'; similar: device_id\n", "select ^"),
    ("from as_of", "as_of needs an instant: as_of('2h')", "from ^"),
    ("from as_of('soon')", "or now() - interval 2 hour (instant='soon' is not a time)\n", "from ^"),
    ("from history where path = /3303/0/5700", "; put text in single quotes: path = '/3303/0/5700'", None),
    ("from history h where h.endpoint_name = light-01", "quotes: h.endpoint_name = 'light-01'", None),
    ('from history where endpoint_name like "light-01"', "quotes: endpoint_name like 'light-01'", None),
    ("from history where changed_at > now() - '1h'", "write now() - interval 1 hour", None),
    ("from history where changed_at > now() - 1h", "write now() - interval 1 hour", None),
    ("from history where changed_at > '1h'", "or now() - interval 1 hour", None),
    ("from state, as_of(reported_at)", "as_of: instant must be a constant time", "from state, ^"),
]


def test_errors_show_the_position_and_the_nearest_name(client, fleet):
    for query, message, mark in FAULTS:
        with pytest.raises(InvalidValue) as caught:
            client.sql(query)
        assert message in str(caught.value)
        if mark is not None:
            *_, line, position = str(caught.value).split("\n")
            begin = line.index(": ") + 2
            assert position.partition("^")[0] == " " * (begin + len(mark) - 1)


@pytest.mark.both_clients
def test_query_over_max_rows_fails_before_it_starts_or_while_rows_arrive(client, fleet, mirror):
    with pytest.raises(InvalidValue, match=r"would fetch at least 4 rows.*from state; add a condition on device_id or"):
        client.sql("from state", max_rows=3)
    with pytest.raises(InvalidValue, match=r"fetches more than max_rows=5.*history; add a condition on device_id or"):
        client.sql("from history where path like '/3303/%'", max_rows=5)
    with pytest.raises(InvalidValue, match="max_rows='many'"):
        client.sql("from state", max_rows="many")
    assert len(client.sql("from history where path like '/3303/%' limit 1", max_rows=100)) == 1


def test_condition_before_the_stored_history_returns_all_of_it(client, fleet):
    assert len(client.sql("from history where changed_at > '2001-01-01'")) == len(client.sql("from history"))


@pytest.mark.keeps_history(False)
def test_error_of_the_service_is_raised(client):
    with pytest.raises(NoHistory):
        client.sql("from history")


def test_many_devices_in_a_condition(client, fleet, monkeypatch):
    for module in ("client_groups.service_conditions", "history.history_request", "snapshot.device_selection"):
        monkeypatch.setattr(f"mirror_sdk.{module}.MAX_IDS_PER_URL", 2)
    among = ", ".join(f"'{one}'" for one in [*list(fleet.values())[:3], "unknown"])
    for view in ("history", "state", "devices", "device_events"):
        found = client.sql(f"select distinct device_id from {view} where device_id in ({among})")
        assert set(found["device_id"]) == set(list(fleet.values())[:3])


@pytest.mark.both_clients
def test_two_queries_at_once(client, fleet):
    query = "select count(*) as n from history"
    expected = client.sql(query)["n"].tolist()
    results = []
    threads = [threading.Thread(target=lambda: results.append(client.sql(query)["n"].tolist())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [expected] * 2


def test_two_tasks_query_at_once(run, plain, simulator):
    simulator.add_device("light", [SENSOR])

    async def scene(client: AsyncMirrorClient):
        queries = [client.sql("select count(*) as n from history"), client.sql("select count(*) as n from state")]
        return [frame["n"].tolist() for frame in await asyncio.gather(*queries)]

    assert run(scene) == [[len(plain.history())], [1]]


def test_many_tasks_query_at_once_on_a_loop_with_one_thread(run, simulator):
    simulator.add_device("light", [SENSOR])

    async def scene(client: AsyncMirrorClient):
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        endless = asyncio.ensure_future(client.sql(ENDLESS))
        while not sql_threads():
            await asyncio.sleep(0)
        try:
            tables = await asyncio.gather(*(client.sql("select count(*) as n from devices") for _ in range(10)))
        finally:
            endless.cancel()
            await asyncio.wait([endless])
        return [table["n"].tolist() for table in tables]

    assert run(scene) == [[1]] * 10


def test_keyboard_interrupt_ends_the_query(plain, monkeypatch):
    def interrupted(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("mirror_sdk.sql.running.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plain.sql(ENDLESS)
    for one in sql_threads():
        one.join(10)
    assert not sql_threads()


@pytest.mark.both_clients
@pytest.mark.parametrize("view", ["events", "requests"])
def test_timeout_applies_to_the_requests_of_a_view(client, fleet, monkeypatch, view):
    limits = []
    send = [Sender.send, AsyncSender.send]
    for sender, real in zip([Sender, AsyncSender], send, strict=True):

        def recorded(self, operation, timeout=None, *arguments, real=real, **options):
            limits.append(min(operation.within_seconds, math.inf if timeout is None else timeout))
            return real(self, operation, timeout, *arguments, **options)

        monkeypatch.setattr(sender, "send", recorded)
    client.sql(f"from {view}", timeout=5)
    assert limits
    assert max(limits) <= 5
