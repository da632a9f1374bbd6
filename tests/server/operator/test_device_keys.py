"""Pre-shared keys of real devices: made once, moved, revoked, beside a running server; no secret is shown again."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import databases
import pytest
from click.testing import CliRunner, Result

from mirror_server.cli import main
from mirror_server.config import Settings
from mirror_server.devices.link import Registration
from mirror_server.devices.lwm2m.identities import Identities
from mirror_server.service import device_keys
from mirror_server.service.device_keys import DeviceKeyRefused
from mirror_server.services import Services
from mirror_server.store import device_keys as stored_keys
from mirror_server.store import maintenance
from mirror_server.store.database import Database
from mirror_server.store.device_keys import DeviceKey
from mirror_server.store.failures import StorageFailed

BEGIN = 1_800_000_000_000
NAME = "urn:imei:490154203237518"
LONGEST_IDENTITY = "i" * 32


@pytest.fixture
def url(tmp_path: Path) -> str:
    return databases.new_database_url(tmp_path)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with closing(Database(url)) as opened:
        yield opened


@pytest.fixture
def services(url: str) -> Iterator[Services]:
    with closing(Services(Settings(database_url=url))) as running:
        running.start()
        yield running


def devices(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["devices", *arguments, "--database", url])


def secret_of(result: Result) -> str:
    found = re.search(r"^Key +([0-9a-f]{32})$", result.output, re.MULTILINE)
    assert found, result.output
    return found[1]


def register(services: Services, endpoint_name: str) -> str:
    return services.devices.registered(Registration(endpoint_name, "test", False, 3600, ())).result(60)


def ended(identities: Identities) -> set[str]:
    return asyncio.run(identities.ended())


def stored(database: Database, name: str) -> DeviceKey | None:
    return database.look(lambda session: stored_keys.find(session, name))


def test_a_key_is_printed_once_with_how_to_use_it_and_the_handshake_finds_it(url, database):
    made = devices(url, "add", NAME)
    assert made.exit_code == 0
    secret = secret_of(made)
    assert f"mirror-device --server coaps://127.0.0.1:5684 --name {NAME}" in made.output
    assert f"export MIRROR_DEVICE_PSK={secret}" in made.output
    assert Identities(database).secret(NAME).hex() == secret
    key = stored(database, NAME)
    assert (key.endpoint_name, key.identity) == (NAME, NAME)
    assert secret not in repr(key)
    listed = devices(url, "list")
    assert listed.output.startswith(f"{NAME}\t{NAME}\t20")
    assert secret not in listed.output


def test_two_keys_differ_and_an_identity_may_be_another_than_the_name_quoted_for_a_shell(url, database):
    one, other = devices(url, "add", "one", "--identity", "sim-1"), devices(url, "add", "other")
    assert secret_of(one) != secret_of(other)
    assert "--name one --identity sim-1" in one.output
    identities = Identities(database)
    assert identities.secret("sim-1").hex() == secret_of(one)
    assert identities.secret("one") is None
    assert "--name 'a $(b)' --identity 'c d'" in devices(url, "add", "a $(b)", "--identity", "c d").output


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ["known"],
            "'known' has a key already, which is not shown again; for another one 'mirror-server devices",
        ),
        (["new", "--identity", "known"], "the identity 'known' is that of 'known'; give another one with --identity"),
        (["a\x1b[2J"], "an endpoint name has at least one letter, and none that cannot be seen"),
        ([" "], "an endpoint name has at least one letter"),
        (["a", "--identity", "b\n"], "an identity has at least one letter, and none that cannot be seen"),
        (["ä" * 17], "has 34 bytes, and DTLS here takes 32 at most; give the device a shorter one with --identity"),
        (["n" * 253, "--identity", "short"], "an endpoint name has 252 bytes at most, not 253"),
    ],
)
def test_what_cannot_be_a_device_is_refused_with_what_to_do(url, database, arguments, reason):
    assert devices(url, "add", "known").exit_code == 0
    refused = devices(url, "add", *arguments)
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: ")
    assert reason in refused.output
    assert refused.output.count("\n") == 1
    assert refused.output.rstrip("\n").isprintable()
    with database.read() as session:
        assert [key.endpoint_name for key in stored_keys.list_all(session)] == ["known"]


def test_the_longest_names_are_taken(database):
    assert device_keys.add(database, "n" * 252, LONGEST_IDENTITY, BEGIN).identity == LONGEST_IDENTITY


def test_of_two_that_add_the_same_device_at_once_one_is_refused(url):
    def add(number: int) -> bool:
        with closing(Database(url)) as own:
            try:
                device_keys.add(own, "both", f"identity-{number}", BEGIN)
            except DeviceKeyRefused:
                return False
            return True

    Database(url).close()
    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(add, range(2))) == [False, True]


@pytest.mark.parametrize("command", [["revoke", "nobody"], ["rename", "nobody", "somebody"]])
def test_a_device_without_a_key_is_named_with_what_shows_the_others(url, database, command):
    refused = devices(url, *command)
    assert refused.exit_code == 1
    assert "no device 'nobody' has a key; 'mirror-server devices list' shows those that are there" in refused.output


@pytest.mark.parametrize("change", [["revoke", NAME], ["rename", NAME, "other"]])
def test_the_sessions_of_a_key_that_is_changed_are_to_end_once(url, database, change):
    identities = Identities(database)
    devices(url, "add", NAME)
    devices(url, "add", "bystander")
    assert ended(identities) == set()
    assert identities.secret(NAME)
    assert identities.secret("bystander")
    assert ended(identities) == ended(identities) == set()
    assert devices(url, *change).exit_code == 0
    assert ended(identities) == {NAME}
    assert ended(identities) == set()
    assert (identities.secret(NAME) is not None) is (change[0] == "rename")


@pytest.mark.parametrize("shakes_hands_first", [False, True])
def test_a_session_of_a_revoked_key_does_not_go_on_with_the_new_one(url, database, shakes_hands_first):
    identities = Identities(database)
    old = device_keys.add(database, NAME, None, BEGIN)
    assert identities.secret(NAME) == old.secret
    assert ended(identities) == set()
    devices(url, "revoke", NAME)
    new = device_keys.add(database, NAME, None, BEGIN)
    if shakes_hands_first:
        assert identities.secret(NAME) == new.secret
    assert ended(identities) == {NAME}
    assert identities.secret(NAME) == new.secret
    assert ended(identities) == set()


def test_who_comes_with_a_new_key_while_it_is_looked_for_changes_is_held_on_to(database):
    class Slow:
        """A database in which the look for changes sees a handshake come between."""

        look = database.look

        def read(self):
            assert identities.secret(NAME) == new.secret
            return database.read()

    identities = Identities(database)
    old = device_keys.add(database, NAME, None, BEGIN)
    assert identities.secret(NAME) == old.secret
    device_keys.revoke(database, NAME)
    new = device_keys.add(database, NAME, None, BEGIN)
    identities._database = Slow()
    assert ended(identities) == {NAME}
    identities._database = database
    device_keys.revoke(database, NAME)
    assert ended(identities) == {NAME}, "the session that came between goes on"


def test_while_the_database_does_not_answer_nobody_comes_in_and_sessions_go_on(database, monkeypatch, caplog):
    def fail(*_):
        raise StorageFailed("gone")

    identities = Identities(database)
    key = device_keys.add(database, NAME, None, BEGIN)
    assert identities.secret(NAME) == key.secret
    device_keys.revoke(database, NAME)
    with monkeypatch.context() as down, caplog.at_level(logging.WARNING):
        down.setattr(database, "look", fail)
        down.setattr(database, "read", fail)
        assert identities.secret(NAME) is None
        assert ended(identities) == set()
    assert key.secret.hex() not in caplog.text
    assert ended(identities) == {NAME}


def test_unknown_identities_are_not_held_in_memory(database):
    identities = Identities(database)
    for number in range(100):
        assert identities.secret(f"nobody-{number}") is None
    assert not identities._in_use


def test_a_renamed_device_keeps_its_key_and_in_the_mirror_its_id(url, services):
    device_id = register(services, "old")
    key = device_keys.add(services.database, "old", "identity", BEGIN)
    renamed = devices(url, "rename", "old", "new")
    assert renamed.output == "renamed old to new\n"
    found = stored(services.database, "new")
    assert (found.identity, found.secret) == ("identity", key.secret)
    assert register(services, "new") == device_id
    again = device_keys.add(services.database, "old", None, BEGIN)
    assert again.secret != key.secret
    assert register(services, "old") != device_id


def test_a_device_of_the_new_name_keeps_what_the_mirror_has_of_it(url, services):
    old, new = register(services, "old"), register(services, "new")
    device_keys.add(services.database, "old", None, BEGIN)
    renamed = devices(url, "rename", "old", "new")
    assert renamed.exit_code == 0
    assert "nothing was renamed: it has no device of the old name, or one of the new name too" in renamed.output
    assert (register(services, "old"), register(services, "new")) == (old, new)


@pytest.mark.parametrize(
    ("new_name", "reason"),
    [
        ("taken", "'taken' has a key of its own; revoke that one first, or take another name"),
        ("old", "'old' has a key of its own"),
        ("a\tb", "none that cannot be seen"),
    ],
)
def test_a_name_that_cannot_be_had_changes_nothing(database, new_name, reason):
    keys = [device_keys.add(database, name, None, BEGIN) for name in ("old", "taken")]
    with pytest.raises(DeviceKeyRefused, match=re.escape(reason)):
        device_keys.rename(database, "old", new_name)
    assert [stored(database, name) for name in ("old", "taken")] == keys


def test_erasing_a_device_takes_its_key_along_and_ends_its_session(services):
    device_id = register(services, "here")
    for name in ("here", "other"):
        device_keys.add(services.database, name, None, BEGIN)
    identities = Identities(services.database)
    assert identities.secret("here")
    assert ended(identities) == set()
    rows = services.database.write(lambda session: maintenance.erase_device(session, device_id))
    assert rows["device_keys"] == 1
    assert ended(identities) == {"here"}
    with services.database.read() as session:
        assert [key.endpoint_name for key in stored_keys.list_all(session)] == ["other"]


@pytest.mark.sqlite
def test_no_key_is_put_where_others_can_read_it(tmp_path):
    path = tmp_path / "a mirror.db"
    url = f"sqlite:///{path}"
    assert devices(url, "add", "first").exit_code == 0
    with closing(Database(url)):
        for exposed in (path, path.with_name(f"{path.name}-wal")):
            exposed.chmod(0o640)
            refused = devices(url, "add", "second")
            assert refused.exit_code == 1
            assert f"first: chmod 600 '{exposed}'\n" in refused.output
            exposed.chmod(0o600)
        assert devices(url, "add", "second").exit_code == 0
