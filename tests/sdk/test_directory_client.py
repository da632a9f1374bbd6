"""Attributes of devices, saved filters and device events in both clients. Source: wire.md 9."""

from datetime import datetime, timedelta

import pandas as pd
import pytest

from mirror_sdk import AccessDenied, BadRequest, NotFound, UnknownDevice, UnknownQuery
from mirror_sdk.privacy import pseudonymize
from mirror_server.service.keys import Scope

LAMP = {"name": "Lamp", "description": "by the window", "attributes": {"room": "B12"}}


def test_attributes_of_a_device_are_visible_to_all_and_persist(client, plain, device_id):
    said = client.devices.update(device_id, **LAMP)
    assert (said.name, said.description, said.custom_attributes) == tuple(LAMP.values())
    assert plain.devices.get(device_id) == said
    assert plain.devices.update(said, name="Lantern").custom_attributes == LAMP["attributes"]
    assert client.devices.update(device_id, description="").description is None
    cleared = client.devices.update(said.endpoint_name, name="", attributes={})
    assert (cleared.name, cleared.custom_attributes) == (cleared.endpoint_name, {})
    assert client.devices.update(device_id) == cleared


def test_devices_are_found_by_their_attributes(client, device_id):
    client.devices.update(device_id, **LAMP)
    room = "custom_attributes__room"
    for filters in ({"name": "Lamp"}, {room: "B12"}, {f"{room}__in": ["B12", "x"]}):
        assert client.devices.list(filters=filters).ids == [device_id]
        assert len(client.fleet.snapshot(filters=filters)["device_id"].unique()) == 1
    assert client.devices.list(filters={room: "B13"}).ids == []


def test_invalid_attributes_are_rejected(client, new_client, device_id):
    for said in ({"name": "a" * 129}, {"attributes": {"1a": "x"}}, {"attributes": dict.fromkeys("abcdef", "")}):
        with pytest.raises(ValueError, match="name" if "name" in said else "custom_attributes"):
            client.devices.update(device_id, **said)
    with pytest.raises(UnknownDevice, match="nobody"):
        client.devices.update("nobody", name="x")
    reader = new_client(Scope.READ)
    for change in (lambda: reader.devices.update(device_id, name="x"), lambda: reader.devices.queries.create("x", "")):
        with pytest.raises(AccessDenied, match="write"):
            change()


def test_a_query_is_saved_used_changed_and_deleted(client, plain, device_id):
    name = client.devices.get(device_id).endpoint_name
    lights = client.devices.queries.create("lights", {"endpoint_name__in": [name, "ö & b"], "state": "registered"})
    assert plain.devices.queries.list() == [lights]
    for query in ("lights", lights):
        assert plain.devices.list(query=query).ids == [device_id]
        assert plain.devices.list(query=query, state="deregistered").ids == []
    assert plain.devices.queries.update("lights", query="state=deregistered").name == "lights"
    assert client.devices.list(query="lights").ids == []
    assert client.devices.list(query=lights).ids == [device_id]
    assert client.devices.queries.update(lights, name="lamps").query == "state=deregistered"
    plain.devices.queries.delete("lamps")
    with pytest.raises(NotFound):
        client.devices.queries.delete(lights)
    for use in (
        lambda: client.devices.list(query="lamps"),
        lambda: client.devices.queries.delete("lamps"),
        lambda: client.devices.queries.update("lamps", name="x"),
    ):
        with pytest.raises(UnknownQuery, match=r"no saved query is named 'lamps'; client\.devices\.queries\.list"):
            use()


def test_an_invalid_query_is_rejected(client):
    for query, error, expected_message in (
        ({"color": "red"}, BadRequest, "query: color__eq: unknown filter"),
        ({"created_at__gte": datetime(2026, 1, 1)}, ValueError, "has no zone"),
        ("a" * 1001, ValueError, "query"),
        (1, TypeError, None),
    ):
        with pytest.raises(error, match=expected_message):
            client.devices.queries.create("name", query)
    with pytest.raises(TypeError):
        client.devices.list(query=1)


@pytest.mark.parametrize(("operator", "alone"), [("in", "eq"), ("nin", "neq")])
def test_of_several_values_none_may_have_a_comma(client, device_id, operator, alone):
    """A comma separates them, so the filter would differ from the requested one."""
    client.devices.update(device_id, name="Lamp, by the window")
    several = {f"name__{operator}": ["Lamp", "Lamp, by the window"]}
    for use in (client.devices.list, lambda filters: client.devices.queries.create("lamps", filters)):
        with pytest.raises(ValueError, match=f"separate request with name__{alone}='Lamp, by the window'"):
            use(filters=several)
    found = client.devices.list(filters={f"name__{alone}": "Lamp, by the window"}).ids
    assert (device_id in found) == (alone == "eq")


def test_events_are_listed_and_tabled(client, simulator, device_id):
    started_at = simulator.get_clock()
    simulator.advance(60)
    simulator.update_registration(device_id)
    simulator.deregister(device_id)
    types = ["registration", "reg_update", "deregistration"]
    events = client.devices.events([device_id])
    assert [event.event_type for event in events] == types
    frame = client.devices.events_frame([device_id], tz="Europe/Berlin")
    assert frame["event"].tolist() == types
    assert frame["state_change"].tolist() == [True, False, True]
    assert frame["device_id"].tolist() == [device_id] * 3
    assert frame["event_id"].tolist() == [event.id for event in events]
    assert str(frame["changed_at"].dtype) == "datetime64[ms, Europe/Berlin]"
    assert frame.attrs["mirror"] | {"devices": 1, "complete": True, "server": client.base_url} == frame.attrs["mirror"]
    later = started_at + timedelta(seconds=60)
    assert client.devices.events([device_id], begin=later) == events[1:]
    assert client.devices.events([device_id], end=later) == events[:1]
    assert client.devices.events(event_types=["deregistration", "expired"]) == events[2:]
    assert client.devices.events([device_id], limit=2) == events[1:]
    assert client.devices.events(limit=0) == client.devices.events([]) == []
    assert len(client.devices.events_frame([])) == 0
    with pytest.raises(UnknownDevice):
        client.devices.events(["nobody"])
    with pytest.raises(TypeError, match="must be a list of str"):
        client.devices.events(event_types="expired")
    with pytest.raises(ValueError, match="no time zone"):
        client.devices.events(begin=datetime(2026, 1, 1))


def test_events_of_many_devices_and_pages_are_one_list(client, simulator, device_id, monkeypatch):
    monkeypatch.setattr("mirror_sdk._protocol.operations.DEVICES_AT_A_TIME", 2)
    monkeypatch.setattr("mirror_sdk._protocol.operations.MAX_LIMIT", 3)
    more = [simulator.add_device(f"more-{number}") for number in range(4)]
    for one in (*more, device_id):
        simulator.update_registration(one)
    every = client.devices.events()
    assert [event.id for event in every] == sorted({event.id for event in every})
    assert client.devices.events([*more, device_id]) == every
    assert client.devices.events(more) == [event for event in every if event.device_id != device_id]
    assert client.devices.events([*more, device_id], limit=4) == every[-4:]


def test_the_table_of_devices_has_their_attributes_as_columns(client, ids):
    client.devices.update(ids[0], attributes={"room": "B12", "state": "new"})
    client.devices.update(ids[1], attributes={"room": "B13"})
    frame = client.devices.list().to_frame().set_index("device_id")
    room, state = "custom_attributes__room", "custom_attributes__state"
    assert frame.columns.tolist()[-2:] == [room, state]
    assert frame.loc[ids[:3], room].tolist() == ["B12", "B13", pd.NA]
    assert frame.loc[ids[0], ["state", state]].tolist() == ["registered", "new"]


def test_attributes_of_devices_become_pseudonyms(client, ids):
    client.devices.update(ids[0], attributes={"owner": "Anna", "path": "/6/0/0"})
    frame = pseudonymize(client.devices.list().to_frame(), b"a key of at least 16 bytes")
    assert frame.astype(str).isin(["Anna", "/6/0/0"]).sum().sum() == 0
    assert frame["custom_attributes__owner"].notna().sum() == 1
