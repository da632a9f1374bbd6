"""Pre-shared keys of real devices: created, renamed and revoked while a server runs. No secret is shown again."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from unittest.mock import Mock

import pytest
from operator_commands import assert_fails, assert_fails_in_one_line, done

from mirror_server.devices.interface import Registration
from mirror_server.extensions.lwm2m import device_keys
from mirror_server.extensions.lwm2m.device_keys import DeviceKey, Identities, InvalidDeviceKey
from mirror_server.hooks import Extensions, open_database, read_settings
from mirror_server.server import Services
from mirror_server.store import maintenance
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database

BEGIN = 1_800_000_000_000
NAME = "urn:imei:490154203237518"
LONGEST_IDENTITY = "i" * 32


@pytest.fixture
def services(url: str) -> Iterator[Services]:
    with closing(Services(read_settings(database_url=url))) as running:
        running.start()
        yield running


@pytest.fixture
def identities(database: Database) -> Identities:
    return Identities(database)


def secret_in(output: str) -> str:
    found = re.search(r"^Key +([0-9a-f]{32})$", output, re.MULTILINE)
    assert found, output
    return found[1]


def register(services: Services, endpoint_name: str) -> str:
    return services.devices.registered(Registration(endpoint_name, "test", False, 3600, (), "lwm2m")).result(60)


def ended(identities: Identities) -> set[str]:
    return asyncio.run(identities.ended())


def stored(database: Database, name: str) -> DeviceKey | None:
    return database.query(lambda session: device_keys.find(session, name))


def names_with_a_key(database: Database) -> list[str]:
    return [key.endpoint_name for key in database.query(device_keys.list_all)]


def new_key(database: Database, identities: Identities) -> bytes:
    """Create the key of the device, and use it in a handshake."""
    key = device_keys.add(database, NAME, None, BEGIN)
    assert identities.secret(NAME) == key.secret
    return key.secret


def test_added_key_is_printed_once_with_instructions_and_found_by_handshake(url, database, identities):
    made = done(url, "devices", "add", NAME)
    secret = secret_in(made)
    assert f"mirror-device --server coaps://127.0.0.1:5684 --name {NAME}" in made
    assert f"export MIRROR_DEVICE_PSK={secret}" in made
    assert identities.secret(NAME).hex() == secret
    key = stored(database, NAME)
    assert (key.endpoint_name, key.identity) == (NAME, NAME)
    assert secret not in repr(key)
    listed = done(url, "devices", "list")
    assert listed.startswith(f"{NAME}\t{NAME}\t20")
    assert secret not in listed


def test_keys_are_unique_and_custom_identity_is_quoted_for_the_shell(url, identities):
    one, other = done(url, "devices", "add", "one", "--identity", "sim-1"), done(url, "devices", "add", "other")
    assert secret_in(one) != secret_in(other)
    assert "--name one --identity sim-1" in one
    assert identities.secret("sim-1").hex() == secret_in(one)
    assert identities.secret("one") is None
    assert "--name 'a $(b)' --identity 'c d'" in done(url, "devices", "add", "a $(b)", "--identity", "c d")


def test_add_with_invalid_or_existing_name_fails_with_the_cure(url, database):
    done(url, "devices", "add", "known")
    for arguments, reason in (
        (["known"], "'known' already has a key, which is not shown again; to replace it, run 'mirror-server devices"),
        (["new", "--identity", "known"], "the identity 'known' belongs to 'known'; set another one with --identity"),
        (["a\x1b[2J"], "an endpoint name must have only printable characters, at least one of them visible"),
        ([" "], "an endpoint name must have only printable"),
        (["a", "--identity", "b\n"], "an identity must have only printable characters, at least one of them visible"),
        (["ä" * 17], "has 34 bytes, the maximum is 32; set a shorter one with --identity"),
        (["n" * 253, "--identity", "short"], "an endpoint name has at most 252 bytes, got 253"),
    ):
        message = assert_fails_in_one_line(url, "devices", "add", *arguments, message=reason)
        assert message.rstrip("\n").isprintable()
        assert names_with_a_key(database) == ["known"]


def test_longest_allowed_name_and_identity_are_accepted(database):
    assert device_keys.add(database, "n" * 252, LONGEST_IDENTITY, BEGIN).identity == LONGEST_IDENTITY


def test_concurrent_adds_of_one_device_create_one_key(url):
    def add(number: int) -> bool:
        try:
            with closing(open_database(url)) as own:
                device_keys.add(own, "both", f"identity-{number}", BEGIN)
        except InvalidDeviceKey:
            return False
        return True

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(add, range(2))) == [False, True]


@pytest.mark.parametrize("command", [["revoke", "unknown"], ["rename", "unknown", "other"]])
def test_revoke_or_rename_without_key_fails_and_points_to_list(url, database, command):
    message = "device 'unknown' has no key; 'mirror-server devices list' shows the devices with a key"
    assert_fails(url, "devices", *command, message=message)


@pytest.mark.parametrize("change", [["revoke", NAME], ["rename", NAME, "other"]])
def test_changed_key_ends_its_sessions_once(url, identities, change):
    for name in (NAME, "bystander"):
        done(url, "devices", "add", name)
    assert ended(identities) == set()
    assert identities.secret(NAME)
    assert identities.secret("bystander")
    assert ended(identities) == ended(identities) == set()
    done(url, "devices", *change)
    assert ended(identities) == {NAME}
    assert ended(identities) == set()
    assert (identities.secret(NAME) is not None) is (change[0] == "rename")


def test_mistyped_database_fails_and_is_not_created(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_fails("sqlite:///mirorr.db", "devices", "revoke", "d", message="there is no database mirorr.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("handshakes_first", [False, True])
def test_session_of_revoked_key_ends_although_a_new_key_exists(database, identities, handshakes_first):
    new_key(database, identities)
    assert ended(identities) == set()
    device_keys.revoke(database, NAME)
    new = device_keys.add(database, NAME, None, BEGIN)
    if handshakes_first:
        assert identities.secret(NAME) == new.secret
    assert ended(identities) == {NAME}
    assert identities.secret(NAME) == new.secret
    assert ended(identities) == set()


def test_session_with_new_key_during_change_check_continues_and_stays_watched(database, identities, monkeypatch):
    read = database.read

    def read_after_handshake():
        assert identities.secret(NAME) == new.secret
        return read()

    new_key(database, identities)
    device_keys.revoke(database, NAME)
    new = device_keys.add(database, NAME, None, BEGIN)
    with monkeypatch.context() as slow:
        slow.setattr(database, "read", read_after_handshake)
        assert ended(identities) == {NAME}
    device_keys.revoke(database, NAME)
    assert ended(identities) == {NAME}, "the session with the new key is still watched"


def test_unavailable_database_blocks_handshakes_and_keeps_sessions(database, identities, monkeypatch, caplog):
    secret = new_key(database, identities)
    device_keys.revoke(database, NAME)
    with monkeypatch.context() as down, caplog.at_level(logging.WARNING):
        for name in ("query", "read"):
            down.setattr(database, name, Mock(side_effect=StorageFailed("gone")))
        assert identities.secret(NAME) is None
        assert ended(identities) == set()
    assert secret.hex() not in caplog.text
    assert ended(identities) == {NAME}


def test_unknown_identities_use_no_memory(identities):
    for number in range(100):
        assert identities.secret(f"unknown-{number}") is None
    assert not identities._in_use


def test_renamed_device_keeps_key_and_device_id(url, services):
    device_id = register(services, "old")
    key = device_keys.add(services.database, "old", "identity", BEGIN)
    assert done(url, "devices", "rename", "old", "new") == "renamed old to new\n"
    found = stored(services.database, "new")
    assert (found.identity, found.secret) == ("identity", key.secret)
    assert register(services, "new") == device_id
    again = device_keys.add(services.database, "old", None, BEGIN)
    assert again.secret != key.secret
    assert register(services, "old") != device_id


def test_rename_to_existing_name_keeps_both_devices(url, services):
    old, new = register(services, "old"), register(services, "new")
    device_keys.add(services.database, "old", None, BEGIN)
    message = "the mirror already has a device with the name new."
    assert message in done(url, "devices", "rename", "old", "new")
    assert (register(services, "old"), register(services, "new")) == (old, new)


def test_rename_to_invalid_or_used_name_changes_nothing(database):
    keys = [device_keys.add(database, name, None, BEGIN) for name in ("old", "taken")]
    for new_name, reason in (
        ("taken", "'taken' already has a key; revoke that key first, or use another name"),
        ("old", "'old' already has a key"),
        ("a\tb", "only printable characters, at least one of them visible"),
    ):
        with pytest.raises(InvalidDeviceKey, match=re.escape(reason)):
            device_keys.rename(database, "old", new_name)
        assert [stored(database, name) for name in ("old", "taken")] == keys


def test_erased_device_loses_key_and_session(services):
    device_id = register(services, "here")
    for name in ("here", "other"):
        device_keys.add(services.database, name, None, BEGIN)
    identities = Identities(services.database)
    assert identities.secret("here")
    assert ended(identities) == set()
    rows = services.database.write(lambda session: maintenance.erase_device(session, device_id, Extensions().storages))
    assert rows["device_keys"] == 1
    assert ended(identities) == {"here"}
    assert names_with_a_key(services.database) == ["other"]


@pytest.mark.sqlite
def test_add_to_database_readable_by_others_fails(tmp_path):
    path = tmp_path / "a mirror.db"
    url = f"sqlite:///{path}"
    done(url, "devices", "add", "first")
    with closing(open_database(url)):
        for exposed in (path, path.with_name(f"{path.name}-wal")):
            exposed.chmod(0o640)
            assert_fails(url, "devices", "add", "second", message=f"first: chmod 600 '{exposed}'\n")
            exposed.chmod(0o600)
        done(url, "devices", "add", "second")
