"""Renewing a key preserves its application. Both keys are valid during the overlap."""

from __future__ import annotations

import re

import databases
import pytest
from operator_commands import assert_fails, done

from mirror_server.clock import wall_time
from mirror_server.core.errors import ApiError
from mirror_server.service import keys
from mirror_server.service.keys import DEFAULT_SCOPES, Authenticator
from mirror_server.store.database import Database

DAY_SECONDS = 24 * 3600
BEGIN = 1_800_000_000_000
URL = "/v3/devices"
RULES = [{"endpoint-type": "Light"}]


@pytest.fixture
def url(server):
    return server.settings.database_url


def app_of(key: str) -> str:
    return key.split("_")[1]


def renew(url: str, name: str, overlap: str = "24h") -> str:
    return done(url, "keys", "renew", name, "--overlap", overlap).strip()


class Door:
    """An authenticator with a clock that the test sets, and its keys."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.now = BEGIN
        self.authenticator = Authenticator(database, 1_000_000, now=lambda: self.now)

    def create(self, name: str) -> str:
        return keys.create(self.database, name, DEFAULT_SCOPES, self.now)

    def renew(self, name: str, overlap_seconds: int = DAY_SECONDS) -> str:
        return keys.renew(self.database, name, overlap_seconds, self.now)

    def advance(self, seconds: int) -> None:
        self.now += seconds * 1000

    def admits(self, key: str) -> bool:
        header = f"Bearer {key}"
        try:
            identity = self.authenticator.authenticate(header, lambda: "", self.database.version())
        except ApiError:
            former = keys.Identity(app_of(key), frozenset(), keys.hash_of(keys.parse_key(key)[1]))
            return self.authenticator.still_admits(former)
        assert self.authenticator.still_admits(identity)
        assert identity.app_id == app_of(key)
        return True


@pytest.fixture
def door(database: Database) -> Door:
    return Door(database)


def test_previous_key_is_valid_for_its_overlap(door):
    other, keys_of_app = door.create("other"), [door.create("app"), door.renew("app")]
    assert len({app_of(key) for key in keys_of_app}) == 1
    door.advance(3600)
    keys_of_app.append(door.renew("app"))
    for seconds, are_good in (
        (DAY_SECONDS - 3600 - 1, [True, True, True]),
        (1, [False, True, True]),
        (3600, [False, False, True]),
    ):
        door.advance(seconds)
        assert [door.admits(key) for key in keys_of_app] == are_good
    assert door.admits(other)


@pytest.mark.parametrize("overlap_seconds", [0, 60])
def test_earlier_keys_end_with_the_last_overlap_at_the_latest(door, overlap_seconds):
    first = door.create("app")
    second = door.renew("app")
    third = door.renew("app", overlap_seconds)
    assert [door.admits(key) for key in (first, second, third)] == [overlap_seconds > 0] * 2 + [True]
    door.advance(overlap_seconds)
    assert [door.admits(key) for key in (first, second, third)] == [False, False, True]


def test_secret_of_another_key_is_rejected(door):
    mine, other = door.create("app"), door.create("other")
    door.renew("app")
    door.renew("other")
    assert not door.admits("_".join([*mine.split("_", 2)[:2], other.split("_", 2)[2]]))


def test_renewal_preserves_the_application_while_the_server_runs(server, key, url):
    device_id = server.add_device(key, "light-1")
    server.call(key, "PUT", "/v2/subscriptions", json=RULES)
    server.subscribe(key, device_id)
    assert server.call(key, "GET", "/v2/notification/pull?hold=0").status_code == 200
    log = server.log(key)

    renewed = done(url, "keys", "renew", "test")
    new = renewed.strip()
    assert new.startswith(f"ak_{app_of(key)}_")
    assert renewed == f"{new}\n"
    assert new.split("_", 2)[2].encode() not in str(databases.query(url, "SELECT * FROM access_keys")).encode()

    assert server.call(key, "GET", URL).status_code == 200
    assert server.call(new, "GET", "/v2/subscriptions").json == RULES
    assert server.call(new, "GET", f"/v2/subscriptions/{device_id}/3303/0/5700").status_code == 200
    assert server.log(new) == log
    assert server.call(new, "GET", "/v2/notification/pull?hold=0").status_code == 204, "the position stays"
    server.set_value(new, device_id, "25")
    assert server.observed(key)[-1] == (device_id, "25")

    renew(url, app_of(key), "0")
    assert [server.call(one, "GET", URL).status_code for one in (key, new)] == [401, 401]


def test_list_has_the_end_of_the_previous_key(tmp_path):
    url = databases.new_database_url(tmp_path)
    done(url, "keys", "create", "app")
    key = renew(url, "app", "7d")
    (line,) = done(url, "keys", "list").splitlines()
    last = line.split("\t")[-1]
    assert re.fullmatch(r"in use; the previous key is valid until \d{4}-\d\d-\d\dT\d\d:\d\dZ", last)
    assert key.split("_", 2)[2] not in line
    renew(url, "app", "0")
    assert done(url, "keys", "list").endswith("\tin use\n")


def test_all_secrets_of_a_revoked_key_are_rejected(server, key, url):
    new = renew(url, app_of(key))
    done(url, "keys", "revoke", app_of(key))
    assert [server.call(one, "GET", URL).status_code for one in (key, new)] == [401, 401]
    assert databases.query(url, "SELECT * FROM former_secrets") == []
    assert_fails(url, "keys", "renew", app_of(key), message="no key in use")


def test_ambiguous_or_unknown_key_name_is_an_error_and_changes_nothing(tmp_path):
    url = databases.new_database_url(tmp_path)
    first, second, _ = (done(url, "keys", "create", name) for name in ("twice", "twice", "app"))
    before = databases.query(url, "SELECT * FROM access_keys ORDER BY key_id")
    assert_fails(url, "keys", "renew", "nobody", message="keys list")
    assert app_of(second) in assert_fails(url, "keys", "renew", "twice", message=app_of(first)).output
    for overlap in ("24", "-1h", "1.5h", "h", "1w", "100000d", ""):
        assert_fails(url, "keys", "renew", "app", "--overlap", overlap, message="24h", code=2)
    assert_fails(f"sqlite:///{tmp_path}/missing.db", "keys", "renew", "app", message="there is no database")
    assert databases.query(url, "SELECT * FROM access_keys ORDER BY key_id") == before


@pytest.mark.parametrize(
    ("command", "query"), [(("renew", "--overlap", "0"), "hold=55"), (("revoke",), "after=latest&hold=55")]
)
def test_open_poll_of_an_ended_key_delivers_nothing(server, key, other, url, open_poll, command, query):
    poll = open_poll(key, query)
    done(url, "keys", *command, app_of(key))
    server.add_device(other, "sensor-1")
    server.services.log.wake(app_of(key))
    assert poll.result(60).status_code == 401
    assert "sensor-1" not in poll.result(60).text


def test_open_poll_ends_with_the_overlap_of_its_key(server, key, url, open_poll, monkeypatch):
    poll = open_poll(key, "hold=55")
    new = renew(url, app_of(key), "1h")
    monkeypatch.setattr(server.app._admission._authenticator, "_now", lambda: wall_time() + 3_600_001)
    server.add_device(new, "sensor-1")
    assert poll.result(60).status_code == 401
    # The failed poll did not consume the entry.
    assert "registrations" in server.call(new, "GET", "/v2/notification/pull?hold=0").json
