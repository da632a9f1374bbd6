import copy
import dataclasses
import pickle
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from device_objects import device as device_object
from device_objects import resource as state
from html_cells import Cells
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from mirror_sdk import UnknownResource
from mirror_sdk.arrow_tables.state import state_table
from mirror_sdk.device import DeviceList
from mirror_sdk.values import ValueKind
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.directory import Device

AT = "2026-11-20T12:37:55.576Z"
DISPLAYED_AT = "2026-11-20 12:37:55.576"


def directory_device(number, name, **members):
    body = {"id": f"id-{number}", "endpoint_name": name, "state": "registered", "created_at": AT, "updated_at": AT}
    return Device.model_validate(body | members)


def test_a_device_object_is_equal_before_and_after_decoding():
    def fresh():
        return device_object(state("/3311/0/5851", b"40", b"60"), state("/3303/0/5700", b"21.5"))

    looked_at = fresh()
    assert list(looked_at.resources) == ["/3311/0/5851", "/3303/0/5700"]
    assert fresh() == looked_at
    assert repr(fresh()) == repr(looked_at)
    assert pickle.loads(pickle.dumps(fresh())) == copy.copy(fresh()) == copy.deepcopy(fresh()) == looked_at
    assert dataclasses.asdict(fresh()) == dataclasses.asdict(looked_at)
    assert dataclasses.replace(fresh(), device_id="other").resources == looked_at.resources
    assert type(fresh().resources) is dict
    with pytest.raises(TypeError, match="unhashable"):
        hash(fresh())
    with pytest.raises(AttributeError, match="'DeviceObject' object has no attribute 'resource'"):
        fresh().resource  # noqa: B018 - that it is not there is the point


def test_a_device_object_is_a_mapping_of_paths():
    device = device_object(state("/3311/0/5851", b"40"), state("/3303/0/5700", b"21.5"))
    paths = ["/3311/0/5851", "/3303/0/5700"]
    assert isinstance(device, Mapping)
    assert list(device) == list(device.keys()) == paths
    assert len(device) == 2
    assert [resource.value for resource in device.values()] == [40, 21.5]
    assert dict(device) == dict(device.items()) == device.resources == {path: device[path] for path in paths}
    assert ("/3303/0/5700" in device, "/3304/0/5700" in device, 3303 in device) == (True, False, False)
    assert device != dict(device)


def test_concurrent_threads_see_the_same_device_object():
    with ThreadPoolExecutor(4) as pool:
        for _ in range(50):
            device = device_object(*(state(f"/3303/{number}/5700", b"21.5") for number in range(20)))
            assert {len(seen) for seen in pool.map(lambda one: one.resources, [device] * 4)} == {20}


def test_reported_and_desired_values_are_typed():
    moments = {"updated_at": "2026-11-20T12:38:55.576Z", "last_reported_at": AT}
    device = device_object(state("/3311/0/5851", b"40", b"60", subscribed=True), **moments)
    resource = device["/3311/0/5851"]
    at = datetime(2026, 11, 20, 12, 37, 55, 576000, tzinfo=UTC)
    assert (resource.label, resource.unit, resource.subscribed) == ("Light Control · Dimmer", "%", True)
    assert (resource.reported.value.python, resource.reported.reported_at) == (40, at)
    assert resource.reported.expires_at == device.updated_at == at.replace(minute=38)
    assert (resource.desired.value.python, resource.desired.status) == (60, DesiredStatus.PENDING)
    assert (resource.desired.requested_at, resource.desired.status_updated_at) == (at, None)
    assert (device.last_reported_at, device.last_desired_at) == (at, None)


def test_a_payload_of_another_type_than_declared_is_opaque():
    device = device_object(state("/3303/0/5700", b"\xff", b"warm"), state("/not/a/path", b"1"))
    assert device["/3303/0/5700"].reported.value.kind is ValueKind.OPAQUE
    assert device["/3303/0/5700"].desired.value.python == b"warm"
    assert device["/not/a/path"].reported.value.python == "1"
    assert device_object(state("/5/0/0", desired=b"AAE="))["/5/0/0"].desired.value.python == b"AAE="


def test_named_unit_applies_only_to_its_object_instance():
    device = device_object(
        state("/3303/0/5700", b"21"), state("/3303/0/5701", b"Cel"), state("/3303/0/5605"), state("/3303/1/5700", b"21")
    )
    assert [device[path].unit for path in device] == ["Cel", "", "", ""]
    unreadable = device_object(state("/3303/0/5700", b"21"), state("/3303/0/5701", b"\xff"))
    assert unreadable["/3303/0/5700"].unit == ""


def test_an_unknown_path_lists_close_ones():
    device = device_object(state("/3303/0/5700"), state("/3303/0/5701"), state("/1/2/3"))
    with pytest.raises(UnknownResource) as missing:
        device["/3303/0/5702"]
    assert isinstance(missing.value, KeyError)
    expected_message = r"sensor-1 has no resource '/3303/0/5702'; similar: /3303/0/570[01], /3303/0/570[01]"
    assert re.fullmatch(expected_message, str(missing.value))
    with pytest.raises(KeyError, match="there are none"):
        device_object()["/3303/0/5700"]
    with pytest.raises(KeyError, match="the only one is /1/2/3"):
        device_object(state("/1/2/3"))["/3303/0/5700"]
    assert (device.get("/3304/0/5700"), device.get("Temperature", "no path")) == (None, "no path")


def test_the_card_shows_a_row_for_each_resource():
    device = device_object(state("/3311/0/5851", b"40", b"60", subscribed=True), state("/3/0/0"))
    header, dimmer, manufacturer = Cells(device._repr_html_()).rows
    assert header == ["path", "label", "reported", "reported at (UTC)", "desired", "status", "subscribed"]
    assert dimmer == ["/3311/0/5851", "Light Control · Dimmer", "40 %", DISPLAYED_AT, "60 %", "pending", "yes"]
    assert manufacturer == ["/3/0/0", "Device · Manufacturer", "—", "—", "—", "—", "no"]
    assert all(part in repr(device) for part in ("015f00", "resources=2", "reported=1", "pending=1", AT))


@pytest.mark.parametrize("resources", [[], [state("/3303/0/5700")]])
def test_the_card_of_an_empty_mirror_says_why(resources):
    reason = "the first one comes from a read, a write, a subscription or auto-observation"
    assert reason in device_object(*resources)._repr_html_()
    assert reason not in device_object(*resources, state("/3/0/0", b"x"))._repr_html_()


DEVICES = DeviceList([directory_device(number, f"sensor-{number}") for number in range(4)])


def test_a_device_is_found_by_its_name():
    assert DEVICES.by_name("sensor-2").id == "id-2"
    assert isinstance(DEVICES[1:3], DeviceList)
    assert DEVICES[1:3].ids == ["id-1", "id-2"]
    with pytest.raises(KeyError, match=r"'sensr-2'.*similar: .*sensor-2"):
        DEVICES.by_name("sensr-2")
    twins = DeviceList([directory_device(1, "twin"), directory_device(2, "twin")])
    with pytest.raises(KeyError, match=r"2 devices.*id-1, id-2"):
        twins.by_name("twin")


def test_the_card_of_a_device_list_has_a_row_for_each_device():
    rows = Cells(DEVICES[:1]._repr_html_()).rows
    assert rows[0] == ["endpoint name", "device id", "type", "queue mode", "state", "updated at (UTC)"]
    assert rows[1][:5] == ["sensor-0", "id-0", "—", "no", "registered"]
    assert repr(DEVICES) == "<DeviceList of 4 devices>"


def test_a_desired_value_is_read_in_the_content_type_it_was_written_in():
    written = state("/9999/0/1", desired=b"21")
    assert device_object(written)["/9999/0/1"].desired.value.python == "21"
    written["desired"]["content_type"] = "application/octet-stream"
    assert device_object(written)["/9999/0/1"].desired.value.python == b"21"


def test_names_and_paths_are_completed(client, device_id):
    shell = InteractiveShell()
    shell.user_ns |= {"devices": client.devices.list(), "device": client.get_device(device_id)}
    with provisionalcompleter():
        for prefix, completion in {'devices["sen': "sensor-1", 'device["/3303': "/3303/0/5700"}.items():
            assert completion in {one.text for one in shell.Completer.completions(prefix, len(prefix))}
    assert shell.user_ns["devices"]["sensor-1"].id == device_id
    shell.history_manager.end_session()


def test_a_multiple_resource_has_a_value_for_each_instance_and_is_one_row():
    tlv = bytes.fromhex("880708 42000ed8 42011388")
    device = device_object(state("/3/0/7", tlv, content_type="application/vnd.oma.lwm2m+tlv"))
    voltages = device["/3/0/7"]
    assert voltages.value == {0: 3800, 1: 5000}
    assert '<ReportedValue {"0": 3800, "1": 5000} at ' in repr(voltages)
    assert [row[2] for row in Cells(device._repr_html_()).rows[1:]] == ['{"0": 3800, "1": 5000}']
    (row,) = state_table([device], paths=None)[0].to_pylist()
    assert (row["path"], row["value_kind"]) == ("/3/0/7", "multiple")
    assert row["reported_text"] == '{"0": 3800, "1": 5000}'


def test_a_directory_device_has_a_short_form_and_a_card():
    device = directory_device(
        1, "light-01", endpoint_type="Light", queue_mode=True, custom_attributes={"room": "hall", "<b>": "\u202e"}
    )
    short_form = "<Device id-1 endpoint_name='light-01' endpoint_type='Light' registered queue_mode>"
    assert (repr(device), str(device), f"{device}") == (short_form, short_form, short_form)
    card = Cells(device._repr_html_())
    for row in (["state", "registered"], ["room", "hall"], ["<b>", "\\u202e"]):
        assert row in card.rows
    misleading = directory_device(2, "a", custom_attributes={"state": "x"})
    assert ["state", "registered"] in Cells(misleading._repr_html_()).rows


MALICIOUS = ["<script>alert(1)</script>", "a\x1b[2Jb", "\u202egpj.exe", "&<>\"'", "x" * 100_000]


@pytest.mark.parametrize("malicious", MALICIOUS)
def test_names_chosen_by_a_device_are_escaped_for_display(malicious):
    fields = {
        "endpoint_type": malicious,
        "state": malicious,
        "custom_attributes": {malicious: malicious, "state": malicious},
    }
    listed = directory_device(1, malicious, **fields)
    mirrored = device_object(
        state("/3303/0/5701", malicious.encode(), malicious.encode()),
        state("/3303/0/5700", b"21.5"),
        state(f"/{malicious[:99]}"),
        endpoint_name=malicious,
        device_id=malicious[:99],
    )
    for displayed in (listed, mirrored, DeviceList([listed])):
        html = displayed._repr_html_()
        assert set(Cells(html).tags) <= {"div", "strong", "code", "table", "thead", "tbody", "tr", "th", "td"}
        assert not re.search("[\x1b\u202e]", html + repr(displayed))
        assert len(html) < 5000
