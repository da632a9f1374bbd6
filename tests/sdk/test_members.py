"""Unknown names on a client and its groups raise an error that suggests the right one."""

import pydoc
import re
from datetime import UTC, datetime

import jedi
import pytest

import mirror_sdk.testing
from mirror_sdk import AsyncMirrorClient, Device, MirrorClient
from mirror_sdk._attribute_suggestions import WithAttributeSuggestions
from mirror_sdk._fork import lazy_property

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("expression", "use"),
    [
        ("client.read", "client.read_value(...)"),
        ("client.write", "client.write_value(...)"),
        ("client.snapshot", "client.fleet.snapshot(...)"),
        ("client.list_devices", "client.devices.list(...)"),
        ("client.connection", "client.devices.connection(...)"),
        ("client.requests_frame", "client.requests.frame(...)"),
        ("client.add_rule", "client.subscriptions.rules.add(...)"),
        ("client.register_decoder", "mirror_sdk.register_decoder(...)"),
        ("client.subscriptions.add", "client.subscriptions.rules.add(...)"),
        ("client.delete_query", "client.devices.queries.delete(...)"),
        ("client.remove_rules", "client.subscriptions.rules.remove(...)"),
        ("client.subscriptions.delete_al", "client.subscriptions.delete_all(...)"),
        ("client.events_frame", "client.devices.events_frame(...) or client.notifications.events_frame(...)"),
        ("client.plans.create", "client.plan(...)"),
        ("client.requests.table", "client.requests.frame(...)"),
        ("client.devices.history", "client.history(...)"),
        ("client.fleet.snapshots", "client.fleet.snapshot(...)"),
    ],
)
@pytest.mark.parametrize("kind", [MirrorClient, AsyncMirrorClient])
def test_unknown_name_says_which_one_to_use(kind, expression, use):
    owner, _, name = expression.rpartition(".")
    with pytest.raises(AttributeError) as caught:
        eval(expression, {"client": kind(URL, "a-key")})
    assert str(caught.value) == f"{owner} has no attribute {name!r}; use {use}"


@pytest.mark.parametrize(
    "expression",
    [
        "client.fleet.xylophone",
        "client.delete",
        "client.delete_all",
        "client.delete_devices",
        "client.device_history",
        "client.devices.create",
        "client.devices.delete",
        "client.devices.remove",
        "client.notifications.list",
        "client.requests.all",
        "client.requests.cancel",
        "client.requests.delete",
        "client.subscriptions.delete",
        "client.subscriptions.rules.delete",
        "client.subscriptions.rules.get",
    ],
)
def test_name_that_is_similar_to_none_lists_those_there_are(expression):
    owner, _, name = expression.rpartition(".")
    with MirrorClient(URL, "a-key") as client, pytest.raises(AttributeError) as caught:
        eval(expression, {"client": client})
    members = [member for member in dir(eval(owner, {"client": client})) if not member.startswith("_")]
    assert str(caught.value) == f"{owner} has no attribute {name!r}; it has {', '.join(members)}"


def expressions_of_groups(owner):
    for name in dir(owner):
        if isinstance(getattr(owner, name), WithAttributeSuggestions):
            yield getattr(owner, name)._expression
            yield from expressions_of_groups(getattr(owner, name))


@pytest.mark.parametrize("kind", [MirrorClient, AsyncMirrorClient])
def test_groups_are_completed(kind):
    client = kind(URL, "a-key")
    groups = list(expressions_of_groups(client))
    assert {"client.notifications", "client.subscriptions.rules"} < set(groups)
    for group in groups:
        completed = {one.name for one in jedi.Interpreter(f"{group}.", [{"client": client}]).complete()}
        assert set(dir(eval(group))) <= completed, group


def test_group_outlives_its_client_and_still_explains_a_wrong_name():
    devices = MirrorClient(URL, "a-key").devices
    with pytest.raises(AttributeError, match=r"use client\.devices\.list\(\.\.\.\)"):
        devices.lists  # noqa: B018 - the attribute is the test


@pytest.mark.parametrize("kind", [MirrorClient, AsyncMirrorClient])
def test_group_cannot_be_replaced(kind):
    client = kind(URL, "a-key")
    with pytest.raises(AttributeError, match=r"^client\.devices cannot be set"):
        client.devices = None
    assert repr(client.devices).startswith(f"<client.devices of {URL}: connection, ")


@pytest.mark.parametrize("kind", [MirrorClient, AsyncMirrorClient])
def test_unknown_or_read_only_attribute_cannot_be_set(kind):
    client = kind(URL, "a-key")
    with pytest.raises(AttributeError, match=r"^client has no attribute 'timeout' that can be set; pass options"):
        client.timeout = 3
    with pytest.raises(AttributeError, match=r"^client\.devices has no attribute 'lists' that can be set"):
        client.devices.lists = None
    with pytest.raises(AttributeError, match=r"^client\.base_url cannot be set"):
        client.base_url = "http://other.example.com"


def test_subclass_of_a_client_may_have_attributes_of_its_own():
    class SiteClient(MirrorClient):
        pass

    client = SiteClient(URL, "a-key")
    client.site = "Berlin"
    assert client.site == "Berlin"


def test_help_of_a_group_shows_no_methods_of_typing():
    help_text = pydoc.render_doc(MirrorClient(URL, "a-key").requests, renderer=pydoc.plaintext)
    assert "typing" not in help_text
    assert "__orig_bases__" not in help_text


def test_errors_name_the_class_that_users_know():
    with pytest.raises(TypeError, match=r"^MirrorClient\.read_value\(\) missing"):
        MirrorClient(URL, "a-key").read_value("light-01")


def test_dir_of_a_module_lists_only_public_names():
    assert set(dir(mirror_sdk.testing)) == set(mirror_sdk.testing.__all__)
    dask = pytest.importorskip("mirror_sdk.dask")
    assert set(dir(dask)) == set(dask.__all__)


def test_a_client_that_is_not_initialized_has_no_members():
    client = MirrorClient.__new__(MirrorClient)
    assert not hasattr(client, "room")
    with pytest.raises(AttributeError, match="has no attribute 'devices'"):
        _ = client.devices


def test_completion_of_a_model_lists_its_members_without_those_of_pydantic():
    at = datetime(2026, 1, 5, tzinfo=UTC)
    device = Device(id="d1", endpoint_name="light-01", state="registered", created_at=at, updated_at=at)
    assert {"endpoint_name", "queue_mode", "to_dict", "to_json"} <= set(dir(device))
    assert not {"copy", "dict", "json", "model_dump", "_abc_impl"} & set(dir(device))
    assert device.model_dump()["id"] == "d1"


@pytest.mark.parametrize("kind", [MirrorClient, AsyncMirrorClient])
def test_help_lists_the_groups_as_properties_and_no_inherited_public_methods(kind):
    text = pydoc.plain(pydoc.render_doc(kind))
    _, _, properties = text.partition("Readonly properties defined here:")
    listed = re.findall(r"^ \|  (\w+)\n \|      [A-Z].*\.\n \|  $", properties, re.MULTILINE)
    assert listed == sorted(name for name, member in vars(kind).items() if isinstance(member, lazy_property))
    inherited = text.partition("Methods inherited from")[2]
    assert re.findall(r"^ \|  ([a-z]\w*)\(", inherited, re.MULTILINE) == []
