"""Names on a client and its groups: an unknown one is an error that says which one to use."""

import pytest

import mirror_sdk.testing
from mirror_sdk import AsyncMirrorClient, MirrorClient

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
        ("client.subscriptions.rules.get", "client.devices.get(...)"),
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


def test_name_that_is_similar_to_none_lists_those_there_are():
    with pytest.raises(AttributeError, match=r"^client\.fleet has no .* 'xylophone'; it has dataset, refresh, sn"):
        MirrorClient(URL, "a-key").fleet.xylophone  # noqa: B018 - the attribute is the test


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


def test_errors_name_the_class_that_users_know():
    with pytest.raises(TypeError, match=r"^MirrorClient\.read_value\(\) missing"):
        MirrorClient(URL, "a-key").read_value("light-01")


def test_modules_show_their_public_names_alone():
    assert set(dir(mirror_sdk.testing)) == set(mirror_sdk.testing.__all__)
    dask = pytest.importorskip("mirror_sdk.dask")
    assert set(dir(dask)) == set(dask.__all__)
