"""Pseudonyms: personal values in any table are replaced consistently, and none remains."""

import pickle
import re
import struct
from io import BytesIO

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from resource_paths import LEVEL, TEMPERATURE

from mirror_sdk import ResourceDeclaration, ResourceType, register_object
from mirror_sdk.arrow_tables.columns import metadata_of_table
from mirror_sdk.cli.help_command import TOPICS
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames import from_arrow, history_frame, mirror, read_parquet
from mirror_sdk.object_definitions import Personal, registry
from mirror_sdk.privacy import PERSONAL_COLUMNS, PERSONAL_RESOURCES, pseudonymize
from mirror_sdk.privacy.pseudonyms import Pseudonyms

KEY = "a key that is hard to guess, of November"
ANNA, BERT = "Annas-Kitchen", "Bert Ünal's phone"
SERIAL, ADDRESS, CELL, LATITUDE, WRITTEN = "/3/0/2", "/4/0/4", "/4/0/8", "/6/0/0", "/3303/0/5750"
UNIT, FIRMWARE, UNKNOWN = "/3303/0/5701", "/3/0/3", "/9999/0/1"
RESOURCES = {
    SERIAL: "SN-4711-0815",
    ADDRESS: "192.168.178.44",
    CELL: "26201337",
    LATITUDE: "52.5162746",
    WRITTEN: "Ritas bedroom",
    TEMPERATURE: "21.5",
    UNIT: "Cel",
    FIRMWARE: f"1.2 for {ANNA}",
    UNKNOWN: "something unheard of",
}
SECRETS = [ANNA, BERT, "mirror.localhost", *(RESOURCES[path] for path in (SERIAL, ADDRESS, CELL, LATITUDE, WRITTEN))]
SECRETS += [struct.pack("<d", float(RESOURCES[path])) for path in (CELL, LATITUDE)]
SECRETS += ["4711", "192.168", "26201337", "unheard", "Ritas-request"]


@pytest.fixture
def homes(client, simulator):
    """The devices of two people, with all kinds of values, a pending write, and events."""
    ids = []
    for name in (ANNA, BERT):
        resources = [{"path": path, "value": value, "observable": True} for path, value in RESOURCES.items()]
        resources.append({"path": LEVEL, "value": "40", "writable": True, "observable": True})
        ids.append(simulator.add_device(name, resources, endpoint_type="Home"))
    client.subscriptions.rules.replace(
        [{"resource_path": ["/3/*", "/4/*", "/6/*", "/3303/*", "/9999/*"]}], apply_now=True
    )
    client.write_value(ids[0], LEVEL, 41)
    client.read_value(ids[0], LEVEL)
    assert len(list(client.events(after=0, timeout=60, limit=20))) == 20
    return ids


@pytest.fixture
def tables(client, simulator, homes, tmp_path):
    """Tables of every kind, by name."""
    with client.record(tmp_path / "run.parquet") as recorder:
        begin = simulator.get_clock()
        simulator.advance(60)
        simulator.set_value(homes[0], SERIAL, "SN-4711-9999")
    now = simulator.get_clock()
    state, events = client.fleet.snapshot(raw=True), client.notifications.events_frame(after=0, timeout=0, raw=True)
    plan = client.plan([(homes[0], LEVEL, 50), ("Rita-nobody", LEVEL, 1)])
    write = client.requests.begin_write(homes[1], LEVEL, 3, async_id="Ritas-request")
    write.result()
    rooms = pd.DataFrame({"endpoint_name": [ANNA, BERT], "floor": [1, 2], "note": [f"see {BERT}", "none"]})
    return {
        "state": state,
        "wide": state.mirror.wide(),
        "wide by label": state.mirror.wide(columns="label"),
        "drift": state.mirror.drift(unconfirmed=True),
        "stale": state.mirror.stale("1s", by="device", now=now, devices=client.devices.list()),
        "directory": client.devices.list().to_frame(),
        "events": events,
        "wide events": events.mirror.wide(),
        "history": history_frame(events, raw=True),
        "requests": client.requests.frame([write]),
        "plan": plan.frame,
        "as of": recorder.recording.as_of(now),
        "changes": recorder.recording.changes(begin, now),
        "joined": state.mirror.join(rooms, on="endpoint_name"),
        "by device and path": state.set_index(["device_id", "path"]),
        "one row": state[state["path"] == TEMPERATURE].iloc[1:2],
    }


def everything_of(table):
    """Return everything that is stored when a table is shared, without compression."""
    if isinstance(table, pd.DataFrame):
        flat = table if table.columns.nlevels == 1 else table.set_axis(map(str, table.columns), axis=1)
        return [pickle.dumps(table), flat.to_parquet(None, compression=None), repr(table.attrs).encode()]
    file = BytesIO()
    if isinstance(table, pl.DataFrame):
        table.write_ipc(file)
        return [pickle.dumps(table), file.getvalue(), str(table.rows()).encode()]
    with pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    return [pickle.dumps(table), file.getvalue(), str(table).encode()]


def is_in(secret, table):
    return any(secret.encode() in content for content in everything_of(table))


def found_in(table, ids):
    contents = everything_of(table)
    secrets = {secret if isinstance(secret, bytes) else secret.encode() for secret in [*SECRETS, *ids]}
    return {secret for secret in secrets for content in contents if secret in content}


def test_no_personal_text_is_left_in_any_table(tables, homes):
    for name, table in tables.items():
        if name not in {"drift", "requests"}:
            assert found_in(table, homes), name
        # A wide table has no column of device names to search for.
        shared = table.mirror.pseudonymize(KEY, also=[ANNA] if "wide" in name else [])
        assert found_in(shared, homes) == set(), name
        assert (shared.shape, list(shared.index.names)) == (table.shape, list(table.index.names)), name


@pytest.mark.parametrize("form", ["arrow", "polars"])
def test_no_personal_text_is_left_in_any_library(client, homes, form):
    for table in (
        client.fleet.snapshot(raw=True, as_=form),
        client.notifications.events_frame(after=0, timeout=0, raw=True, as_=form),
    ):
        assert found_in(table, homes)
        shared = pseudonymize(table, KEY)
        assert found_in(shared, homes) == set()
        assert shared.schema == table.schema if form == "arrow" else shared.columns == table.columns
        # The buffer still contains the part after the slice.
        for begin in range(0, 10, 3):
            assert found_in(pseudonymize(table.slice(begin, 1), KEY, also=[ANNA]), homes) == set()


def test_all_forms_have_the_same_pseudonyms(client, homes):
    for fetch in (client.fleet.snapshot, client.state_frame):
        expected = mirror(fetch(raw=True)).pseudonymize(KEY)
        table = pseudonymize(fetch(raw=True, as_="arrow"), KEY)
        pd.testing.assert_frame_equal(from_arrow(table), expected)
        assert metadata_of_table(table) == expected.attrs["mirror"]
        assert pseudonymize(fetch(raw=True, as_="polars"), KEY).to_dicts() == table.to_pylist()


def test_table_with_pseudonyms_can_be_computed_with(tables, homes):
    state, drift, events, joined = (tables[name] for name in ("state", "drift", "events", "joined"))
    shared = {name: tables[name].mirror.pseudonymize(KEY) for name in ("state", "drift", "events", "joined")}
    names = dict(zip(state["device_id"], shared["state"]["device_id"], strict=True))
    assert len(set(names.values())) == 2
    assert [names[one] for one in drift["device_id"]] == shared["drift"]["device_id"].tolist()
    assert shared["state"].mirror.drift(unconfirmed=True)["path"].tolist() == drift["path"].tolist()
    expected = [names.get(one) for one in events["device_id"].dropna()]
    assert expected == shared["events"]["device_id"].dropna().tolist()
    is_plain = joined["path"].isin([TEMPERATURE, UNIT, FIRMWARE, LEVEL])
    assert shared["joined"]["floor"][is_plain].tolist() == joined["floor"][is_plain].tolist()
    for name in ("path", "label", "unit", "reported_at", "value_kind", "desired_status", "subscribed"):
        pd.testing.assert_series_equal(shared["state"][name], state[name])


def values(frame, path, column="reported_text"):
    return frame.loc[frame["path"] == path, column].tolist()


def test_each_listed_resource_is_replaced_and_reported(client, homes, tmp_path):
    state = client.fleet.snapshot(raw=True).mirror.pseudonymize(KEY)
    assert re.fullmatch(r"serial-[0-9a-z]{12}", values(state, SERIAL)[1])
    assert len(set(values(state, ADDRESS))) == 1  # both have the same
    assert values(state, LATITUDE, "reported_num") == [52.5, 52.5]
    assert values(state, LATITUDE, "reported_raw") == [b"52.5", b"52.5"]
    (cell, _) = values(state, CELL, "reported_num")
    assert cell == int(cell) != 26201337
    assert values(state, TEMPERATURE, "reported_num") == [21.5, 21.5]
    assert values(state, UNIT) == ["Cel", "Cel"]
    assert all(text.startswith("text-") for text in values(state, FIRMWARE))
    assert all(text.startswith("value-") for text in values(state, UNKNOWN))
    assert values(state, SERIAL, "reported_raw") == [text.encode() for text in values(state, SERIAL)]
    report = state.attrs["mirror"]["pseudonymized"]
    reported = {(line["column"], line["resource"]): (line["how"], line["cells"]) for line in report}
    assert reported["device_id", None] == ("identifier", len(state))
    assert reported["reported_text", "/3/*/2"] == reported["reported_raw", "/3/*/2"] == ("identifier", 2)
    assert reported["reported_num", "/6/*/0"] == ("place", 2)
    assert reported["reported_text", "/9999/*/1"] == ("undeclared", 2)
    assert reported["reported_text", None] == ("within", 1)
    assert ("reported_num", "/9999/*/1") not in reported
    # Also in the files.
    state.to_parquet(tmp_path / "state.parquet")
    assert read_parquet(tmp_path / "state.parquet").attrs == state.attrs
    assert metadata_of_table(read_parquet(tmp_path / "state.parquet", as_="arrow"))["pseudonymized"] == report


def test_key_determines_the_pseudonyms_and_is_stored_nowhere(client, homes):
    state = client.fleet.snapshot(raw=True)
    before, metadata = state.copy(deep=True), dict(state.attrs["mirror"])
    one, same, other = (state.mirror.pseudonymize(key) for key in (KEY, KEY.encode(), KEY + "!"))
    pd.testing.assert_frame_equal(state, before)
    assert state.attrs["mirror"] == metadata
    assert one["device_id"].tolist() == same["device_id"].tolist()
    assert not set(one["device_id"]) & set(other["device_id"])
    assert one.attrs["mirror"]["server"] != other.attrs["mirror"]["server"]
    # Rows with equal labels stay separate.
    twice = pd.concat([state, state]).mirror.pseudonymize(KEY)
    assert twice["device_id"].tolist() == one["device_id"].tolist() * 2
    assert not is_in(KEY, one)
    assert KEY not in repr(Pseudonyms(KEY))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Pseudonyms(KEY))


def test_invalid_keys_and_tables_are_rejected(client, homes):
    state, table = client.fleet.snapshot(), client.fleet.snapshot(as_="arrow")
    for key in ("short", b"fifteen bytes..", "", 12345678901234567890, None):
        with pytest.raises(InvalidValue, match="the key") as caught:
            state.mirror.pseudonymize(key)
        assert not key or str(key) not in str(caught.value)
    shared = state.mirror.pseudonymize(KEY)
    for twice in (shared, pseudonymize(table, KEY)):
        with pytest.raises(InvalidValue, match="pseudonyms already"):
            pseudonymize(twice, KEY)
    with pytest.raises(InvalidValue, match="has no metadata of a snapshot"):
        client.fleet.refresh(shared)
    with pytest.raises(InvalidValue, match="the table has no column path"):
        state.drop(columns="path").mirror.pseudonymize(KEY)
    with pytest.raises(TypeError, match="a list is not a table"):
        pseudonymize([], KEY)


def test_empty_tables_stay_empty(client):
    for form in ("pandas", "arrow", "polars"):
        assert len(pseudonymize(client.fleet.snapshot(raw=True, as_=form), KEY)) == 0
    frame = client.fleet.snapshot()
    assert mirror(frame).pseudonymize(KEY).dtypes.astype(str).equals(frame.dtypes.astype(str))


def test_declaration_of_a_registered_object_has_precedence(client, simulator, monkeypatch):
    monkeypatch.setattr(registry, "_table", registry._table)  # it goes again
    text, number = ResourceType.STRING, ResourceType.FLOAT
    declared = {
        1: ResourceDeclaration("Owner", text, "R", personal=Personal.IDENTIFIER),
        2: ResourceDeclaration("Latitude", number, "R", personal=Personal.PLACE),
        3: ResourceDeclaration("Diary", text, "R", personal="hidden"),
        4: ResourceDeclaration("Color", text, "R"),
    }
    register_object(30001, "Home", declared)
    raw_values = {1: "Rita", 2: "48.137", 3: "dear diary", 4: "green"}
    device = simulator.add_device(
        "home", [{"path": f"/30001/0/{one}", "value": text} for one, text in raw_values.items()]
    )
    for one in raw_values:
        client.read_value(device, f"/30001/0/{one}")
    state = client.fleet.snapshot().mirror.pseudonymize(KEY)
    texts = dict(zip(state["path"], state["reported_text"], strict=True))
    assert texts["/30001/0/1"].startswith("value-")
    assert values(state, "/30001/0/2", "reported_num") == [48.1]
    assert pd.isna(texts["/30001/0/3"])
    assert texts["/30001/0/4"] == "green"
    odd = {1: ResourceDeclaration("Owner", text, "R", personal="secret")}
    with pytest.raises(ValueError, match="personal='secret' must be None or one of identifier, place, hidden"):
        register_object(30002, "Home", odd)


def test_the_manual_lists_the_same_as_the_code():
    _, columns, resources = re.findall(r"^\|---.*\n((?:\|.*\n)+)", TOPICS["privacy"].read_text(), re.MULTILINE)
    for column in PERSONAL_COLUMNS:
        assert f"| {column.column} | {column.word}-… | {column.why} |\n" in columns
    documented = re.findall(r"\b(any|\d+)/(\d+)\b", resources)
    pairs = [pair for group in PERSONAL_RESOURCES for pair in group.resources]
    declared = [("any" if object_id is None else str(object_id), str(resource_id)) for object_id, resource_id in pairs]
    assert documented == declared
    becomes = re.findall(r"^\| (\S+-…|tenths of a degree|nothing) \|", resources, re.MULTILINE)
    formats = {Personal.IDENTIFIER: "{}-…", Personal.PLACE: "tenths of a degree", Personal.HIDDEN: "nothing"}
    assert becomes == [formats[group.how].format(group.word) for group in PERSONAL_RESOURCES]


NAME = "kitchen-of-anna"
PLAIN = {"device_id": ["d1", "d2"], "endpoint_name": [NAME, "other-name"], "path": ["/3303/0/5700"] * 2}


def words(*values):
    """Return a sliced column of words whose buffer still contains the first one."""
    return pd.Categorical(values, categories=[NAME, *dict.fromkeys(values)])


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.rename_axis(NAME),
        lambda frame: frame.rename_axis(NAME, axis=1),
        lambda frame: frame.assign(state=words("a", "b")),
        lambda frame: frame.set_index(pd.CategoricalIndex(words("a", "b"), name="kind")),
        lambda frame: frame.set_index(["endpoint_name", "path"])[1:],
        lambda frame: pa.table(PLAIN).append_column(NAME, pa.array([1, 2])),
        lambda frame: pa.table(PLAIN).append_column("state", pa.array([NAME, "b"]).dictionary_encode()).slice(1),
        lambda frame: pa.table(PLAIN).append_column(pa.field("x", pa.int64(), metadata={"of": NAME}), pa.array([1, 2])),
        lambda frame: pl.DataFrame(PLAIN).with_columns(pl.lit(1).alias(NAME)),
    ],
)
def test_no_personal_text_is_left_in_column_names_and_buffers(change):
    table = change(pd.DataFrame(PLAIN))
    assert is_in(NAME, table)
    assert not is_in(NAME, pseudonymize(table, KEY))


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(PLAIN).assign(more=[[NAME], None]),
        pd.DataFrame(PLAIN).assign(more=[{"of": NAME}, None]),
        pd.DataFrame(PLAIN).assign(more=pd.Series([[NAME], []], dtype=pd.ArrowDtype(pa.list_(pa.string())))),
        pd.DataFrame(PLAIN).groupby("path").agg(list),
        pa.table({**PLAIN, "more": [{"of": NAME}, None]}),
        pa.table({**PLAIN, "more": pa.array([NAME.encode()] * 2, pa.binary(len(NAME)))}),
        pl.DataFrame({**PLAIN, "more": [[NAME], []]}),
    ],
    ids=lambda table: type(table).__module__,
)
def test_containers_in_cells_are_rejected(table):
    with pytest.raises(InvalidValue, match="has lists, structures or other containers in its cells"):
        pseudonymize(table, KEY)


ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("form", [pd.DataFrame, pa.Table.from_pandas, pl.from_pandas])
def test_a_renamed_column_of_ids_or_names_is_replaced(form):
    table = pd.DataFrame({"device_id": [ID] * 2, "endpoint_name": [NAME] * 2, "path": ["/3303/0/5700"] * 2})
    for original, secret, columns in (
        ("device_id", ID, ("device", "house", "reason", "value", "")),
        ("endpoint_name", NAME, ("device", "house", "value_of", "state_at", "")),
    ):
        for column in columns:
            renamed = table[[original, "path"]].rename(columns={original: column})
            assert not is_in(secret, pseudonymize(form(renamed), KEY)), (original, column)


def test_a_text_of_an_unknown_column_is_replaced_in_others_too():
    table = pd.DataFrame({"house": [NAME], "reason": [f"{NAME} is offline"], "label": ["Temperature"], "count": [3]})
    shared = mirror(table.assign(group="Temperature")).pseudonymize(KEY)
    assert not is_in(NAME, shared)
    assert (shared["label"].tolist(), shared["count"].tolist()) == (["Temperature"], [3])
    report = {line["column"]: line["how"] for line in shared.attrs["mirror"]["pseudonymized"]}
    assert report == {"house": "unknown", "group": "unknown", "reason": "within"}


def test_devices_that_became_columns_are_replaced_also_in_their_units():
    table = pd.DataFrame({"device": [ID, NAME], "reported_at": [1, 1], "floor": [1, 2]})
    wide = mirror(table.pivot(index="reported_at", columns="device", values="floor")).pseudonymize(KEY)
    assert not is_in(NAME, wide)
    assert not is_in(ID, wide)
    assert not is_in(ID, pseudonymize(pa.table({ID: [1.0]}), KEY))
    # The unit of a column that was dropped does not reveal its name.
    table = pd.DataFrame({"device_id": ["1" * 32], ANNA: [20.5], FIRMWARE: [1.0]})
    table.attrs["units"] = {ANNA: "Cel", BERT: "Cel", FIRMWARE: "%"}
    units = pseudonymize(table, KEY, also=[ANNA, BERT]).attrs["units"]
    assert (len(units), units[FIRMWARE]) == (2, "%")
    assert not {ANNA, BERT} & set(units)


def test_id_and_equal_name_have_different_pseudonyms():
    twins = mirror(pd.DataFrame({"device_id": [ID, NAME], "endpoint_name": [NAME, ID]})).pseudonymize(KEY)
    assert len({*twins["device_id"], *twins["endpoint_name"]}) == 4
    either = mirror(pd.DataFrame({"device": [ID, NAME], "device_id": [ID] * 2, "endpoint_name": [NAME] * 2}))
    found = either.pseudonymize(KEY)
    assert found["device"].tolist() == [found["device_id"][0], found["endpoint_name"][0]]


def test_equal_numbers_have_equal_pseudonyms():
    pseudonyms = Pseudonyms(KEY)
    assert pseudonyms.number("place", -0.0) == pseudonyms.number("place", 0.0)
