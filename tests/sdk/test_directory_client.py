"""What people say of devices, saved filters and device events, as the clients have them. Source: wire.md 9."""

from datetime import datetime, timedelta

import pandas as pd
import pytest

from mirror_sdk import AccessDenied, BadRequest, NotFound, UnknownDevice, UnknownQuery
from mirror_sdk.privacy import pseudonymise
from mirror_server.service.keys import Scope

LAMP = {"name": "Lamp", "description": "by the window", "attributes": {"room": "B12"}}


def test_what_is_said_of_a_device_is_seen_by_all_and_stays(client, plain, device_id):
    said = client.set_device(device_id, **LAMP)
    assert (said.name, said.description, said.custom_attributes) == tuple(LAMP.values())
    assert plain.get_directory_device(device_id) == said
    assert plain.set_device(said, name="Lantern").custom_attributes == LAMP["attributes"]
    assert client.set_device(device_id, description="").description is None
    cleared = client.set_device(said.endpoint_name, name="", attributes={})
    assert (cleared.name, cleared.custom_attributes) == (cleared.endpoint_name, {})
    assert client.set_device(device_id) == cleared


def test_devices_are_found_by_what_is_said(client, device_id):
    client.set_device(device_id, **LAMP)
    room = "custom_attributes__room"
    for filters in ({"name": "Lamp"}, {room: "B12"}, {f"{room}__in": ["B12", "x"]}):
        assert client.list_devices(filters=filters).ids == [device_id]
        assert len(client.snapshot(filters=filters)["device_id"].unique()) == 1
    assert client.list_devices(filters={room: "B13"}).ids == []


def test_what_cannot_be_said_is_refused(client, new_client, device_id):
    for said in ({"name": "a" * 129}, {"attributes": {"1a": "x"}}, {"attributes": dict.fromkeys("abcdef", "")}):
        with pytest.raises(ValueError, match="name" if "name" in said else "custom_attributes"):
            client.set_device(device_id, **said)
    with pytest.raises(UnknownDevice, match="nobody"):
        client.set_device("nobody", name="x")
    reader = new_client(Scope.READ)
    for change in (lambda: reader.set_device(device_id, name="x"), lambda: reader.create_device_query("x", "")):
        with pytest.raises(AccessDenied, match="write"):
            change()


def test_a_query_is_saved_used_changed_and_deleted(client, plain, device_id):
    name = client.get_directory_device(device_id).endpoint_name
    lights = client.create_device_query("lights", {"endpoint_name__in": [name, "ö & b"], "state": "registered"})
    assert plain.list_device_queries() == [lights]
    for query in ("lights", lights):
        assert plain.list_devices(query=query).ids == [device_id]
        assert plain.list_devices(query=query, state="deregistered").ids == []
    assert plain.change_device_query("lights", query="state=deregistered").name == "lights"
    assert client.list_devices(query="lights").ids == []
    assert client.list_devices(query=lights).ids == [device_id]
    assert client.change_device_query(lights, name="lamps").query == "state=deregistered"
    plain.delete_device_query("lamps")
    with pytest.raises(NotFound):
        client.delete_device_query(lights)
    for use in (
        lambda: client.list_devices(query="lamps"),
        lambda: client.delete_device_query("lamps"),
        lambda: client.change_device_query("lamps", name="x"),
    ):
        with pytest.raises(UnknownQuery, match="no filter is saved as 'lamps'; list_device_queries"):
            use()


def test_what_is_no_query_is_refused(client):
    for query, error, told in (
        ({"colour": "red"}, BadRequest, "query: colour__eq: unknown filter"),
        ({"created_at__gte": datetime(2026, 1, 1)}, ValueError, "has no zone"),
        ("a" * 1001, ValueError, "query"),
        (1, TypeError, None),
    ):
        with pytest.raises(error, match=told):
            client.create_device_query("name", query)
    with pytest.raises(TypeError):
        client.list_devices(query=1)


@pytest.mark.parametrize(("operator", "alone"), [("in", "eq"), ("nin", "neq")])
def test_of_several_values_none_may_have_a_comma(client, device_id, operator, alone):
    """A comma separates them, so that the filter would be another one than was asked for."""
    client.set_device(device_id, name="Lamp, by the window")
    several = {f"name__{operator}": ["Lamp", "Lamp, by the window"]}
    for use in (client.list_devices, lambda filters: client.create_device_query("lamps", filters)):
        with pytest.raises(ValueError, match=f"'Lamp, by the window' has one; ask for it alone, with name__{alone}"):
            use(filters=several)
    found = client.list_devices(filters={f"name__{alone}": "Lamp, by the window"}).ids
    assert (device_id in found) == (alone == "eq")


def test_events_are_listed_and_tabled(client, simulator, device_id):
    begun = simulator.get_clock()
    simulator.advance(60)
    simulator.update_registration(device_id)
    simulator.deregister(device_id)
    types = ["registration", "reg_update", "deregistration"]
    events = client.list_device_events([device_id])
    assert [event.event_type for event in events] == types
    frame = client.device_events_frame([device_id], tz="Europe/Berlin")
    assert frame["event"].tolist() == types
    assert frame["state_change"].tolist() == [True, False, True]
    assert frame["device_id"].tolist() == [device_id] * 3
    assert frame["event_id"].tolist() == [event.id for event in events]
    assert str(frame["changed_at"].dtype) == "datetime64[ms, Europe/Berlin]"
    assert frame.attrs["mirror"] | {"devices": 1, "complete": True, "server": client.base_url} == frame.attrs["mirror"]
    later = begun + timedelta(seconds=60)
    assert client.list_device_events([device_id], begin=later) == events[1:]
    assert client.list_device_events([device_id], end=later) == events[:1]
    assert client.list_device_events(event_types=["deregistration", "expired"]) == events[2:]
    assert client.list_device_events([device_id], limit=2) == events[1:]
    assert client.list_device_events(limit=0) == client.list_device_events([]) == []
    assert len(client.device_events_frame([])) == 0
    with pytest.raises(UnknownDevice):
        client.list_device_events(["nobody"])
    with pytest.raises(TypeError, match="one text"):
        client.list_device_events(event_types="expired")
    with pytest.raises(ValueError, match="no time zone"):
        client.list_device_events(begin=datetime(2026, 1, 1))


def test_events_of_many_devices_and_pages_are_one_list(client, simulator, device_id, monkeypatch):
    monkeypatch.setattr("mirror_sdk._service.operations._DEVICES_AT_A_TIME", 2)
    monkeypatch.setattr("mirror_sdk._service.operations.MAX_LIMIT", 3)
    more = [simulator.add_device(f"more-{number}") for number in range(4)]
    for one in (*more, device_id):
        simulator.update_registration(one)
    every = client.list_device_events()
    assert [event.id for event in every] == sorted({event.id for event in every})
    assert client.list_device_events([*more, device_id]) == every
    assert client.list_device_events(more) == [event for event in every if event.device_id != device_id]
    assert client.list_device_events([*more, device_id], limit=4) == every[-4:]


def test_the_table_of_devices_has_their_attributes_as_columns(client, ids):
    client.set_device(ids[0], attributes={"room": "B12", "state": "new"})
    client.set_device(ids[1], attributes={"room": "B13"})
    frame = client.list_devices().to_frame().set_index("device_id")
    room, state = "custom_attributes__room", "custom_attributes__state"
    assert frame.columns.tolist()[-2:] == [room, state]
    assert frame.loc[ids[:3], room].tolist() == ["B12", "B13", pd.NA]
    assert frame.loc[ids[0], ["state", state]].tolist() == ["registered", "new"]


def test_attributes_of_devices_become_pseudonyms(client, ids):
    client.set_device(ids[0], attributes={"owner": "Anna", "path": "/6/0/0"})
    frame = pseudonymise(client.list_devices().to_frame(), b"a key of at least 16 bytes")
    assert frame.astype(str).isin(["Anna", "/6/0/0"]).sum().sum() == 0
    assert frame["custom_attributes__owner"].notna().sum() == 1
