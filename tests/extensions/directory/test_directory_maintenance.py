"""The operator's commands with descriptions of devices, saved queries and device events."""

import databases
import pytest
from operator_commands import assert_fails, done, erased_rows, is_nothing_left

from mirror_server.extensions.directory.service import DirectoryService
from mirror_server.extensions.directory.store.descriptions import Description

EVENTS = "/v3/device-events"
SECRET = "the-user-sleeps-at-21-degrees"


@pytest.fixture
def described(server, key):
    """Two devices with descriptions; that of the first one contains a secret."""
    device_ids = [server.add_device(key, name) for name in ("light-1", "light-2")]
    for device_id, said in zip(device_ids, (SECRET, "plain"), strict=True):
        description = {"name": f"{said}-name", "description": f"{said}-description", "custom_attributes": {"of": said}}
        assert server.call(key, "PUT", f"/v3/devices/{device_id}", json=description).status_code == 200
        server.registration(key, device_id, "PUT")
    return device_ids


@pytest.mark.sqlite
def test_erase_deletes_descriptions_and_events_of_the_device(server, key, described, tmp_path):
    erased, retained = described
    rows = erased_rows(server.settings.database_url, erased)
    assert (rows["device_descriptions"], rows["device_attributes"], rows["device_events"]) == (1, 1, 2)
    assert server.call(key, "GET", f"/v3/devices/{retained}").json["custom_attributes"] == {"of": "plain"}
    assert {event["device_id"] for event in server.call(key, "GET", EVENTS).json["data"]} == {retained}
    assert is_nothing_left(tmp_path, SECRET, erased)


@pytest.mark.parametrize(
    ("damage", "expected_message"),
    [
        ("UPDATE device_events SET kind = 4", "a device event has an unknown kind"),
        (
            "UPDATE device_events SET revision = revision + 1000000",
            "a device event has a larger revision than the last change",
        ),
        ("DELETE FROM device_descriptions", "a device has attributes"),
    ],
)
@pytest.mark.usefixtures("described")
def test_check_finds_damage(server, damage, expected_message):
    url = server.settings.database_url
    done(url, "check")
    databases.execute(url, damage)
    assert_fails(url, "check", message=expected_message)


def test_erasing_removes_the_device_and_its_description_from_saved_filters(server, key, tmp_path):
    services, url, name = server.services, server.settings.database_url, "light-1"
    erased, retained = (server.add_device(key, each) for each in (name, "light-2"))
    of_both = {"floor": "second"}
    for device_id, description in (
        (erased, Description("Lamp of Ms Ray", "Ms Ray, room 12", {**of_both, "tenant": "Ray"})),
        (retained, Description("Lamp", "", of_both)),
    ):
        services.part(DirectoryService).describe(device_id, lambda *_, description=description: description).result(60)
    queries = {
        "what she said": "description=Ms+Ray%2C+room+12",
        "her own": "custom_attributes__tenant__in=Ray,Roe",
        "with her": "state=registered&custom_attributes__tenant=Ray",
        "her floor": "custom_attributes__floor=second",
        "another member": "custom_attributes__floor=Ray",
        f"all but {erased}": "state=registered",
        f"{name}: like it": "endpoint_type=Lamp",
        "Lamp of Ms Ray": "state=registered",
        "Lamp of Ms Raymond": "state=registered",
        "by id": f"id={erased}",
        "by name": f"state=registered&endpoint_name__neq={name}",
        "among others": f"state=registered&id__in={retained},{erased}&custom_attributes__room=%C3%B6",
        "of another": f"id={retained}",
        "of an empty value": "description=",
    }
    for label, query in queries.items():
        services.part(DirectoryService).save_query(label, query).result(60)
    assert erased_rows(url, erased)["device_queries"] == 9
    rows, _ = services.part(DirectoryService).queries((), after=None, descending=False, limit=20, count=False)
    of_others = ("her floor", "another member", "Lamp of Ms Raymond", "of another", "of an empty value")
    assert {row.name.replace(row.query_id, "ID"): row.query for row in rows} == {
        **{label: queries[label] for label in of_others},
        "her own": "custom_attributes__tenant__in=Roe",
        "all but (ID)": "state=registered",
        "(ID): like it": "endpoint_type=Lamp",
        "(ID)": "state=registered",
        "among others": f"state=registered&id__in={retained}&custom_attributes__room=%C3%B6",
    }
    assert is_nothing_left(tmp_path, erased, "room 12")
