"""What an older version stored goes on in the newest schema, put in order by its times where these tell it."""

from contextlib import closing, contextmanager

import databases

from mirror_server.store import commands as stored_commands
from mirror_server.store import descriptions, device_events, device_queries, devices, revisions
from mirror_server.store import resources as stored_resources
from mirror_server.store.conditions import Condition
from mirror_server.store.database import Database

EARLIER, BOTH, LATER = 1_000, 2_000, 3_000
DEVICE = (
    "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
    " created_at, updated_at, last_contact_at, registration_expires_at) VALUES ('d', 'd', 'D', 1, 0, 60, 1, 1, 1, 9)"
)


@contextmanager
def upgraded_from(tmp_path, revision, *statements):
    """A session on what these statements stored in the schema of a revision."""
    url = databases.new_database_url(tmp_path, template="template0")
    databases.upgrade_to(url, revision)
    databases.execute(url, DEVICE, *statements)
    with closing(Database(url)) as database, database.read(with_revision=True) as session:
        yield session


def upgraded(tmp_path, *times, last_revision=7):
    """The numbers of resources of (reported at, desired at), of the mirror and of the device, after the upgrade."""
    resources = (
        "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable, reported_at,"
        f" desired_at) VALUES ('d', '/1/0/{number}', 1, '', '', 1, {reported or 'NULL'}, {desired or 'NULL'})"
        for number, (reported, desired) in enumerate(times)
    )
    counted = [f"UPDATE {table} = {last_revision}" for table in ("revisions SET last_revision", "devices SET revision")]
    with upgraded_from(tmp_path, "0011", *counted, *resources) as session:
        found = sorted(stored_resources.of_device(session, "d"), key=lambda each: each.path)
        last = revisions.last(session)
        of_device = session.scalar("SELECT revision FROM devices")
    return [(each.reported_revision, each.desired_revision) for each in found], last, of_device


def test_the_later_one_has_the_larger_number(tmp_path):
    found, last, _ = upgraded(tmp_path, (EARLIER, LATER), (LATER, BOTH), (EARLIER, EARLIER + 1))
    assert found == [(1, 4), (4, 3), (1, 2)]
    assert last == 8


def test_what_bears_the_same_time_as_the_write_has_no_number(tmp_path):
    found, *_ = upgraded(tmp_path, (BOTH, BOTH), (EARLIER, BOTH))
    assert found == [(None, 2), (1, 2)]


def test_what_is_not_there_has_none(tmp_path):
    found, *_ = upgraded(tmp_path, (None, None), (EARLIER, None), (None, BOTH))
    assert found == [(None, None), (1, None), (None, 2)]


def test_what_comes_next_is_later_than_all_that_was(tmp_path):
    """Changes of before the counter was there were not counted."""
    found, last, _ = upgraded(tmp_path, (EARLIER, BOTH), (LATER, None), last_revision=0)
    assert found == [(1, 2), (3, None)]
    assert last == 4


def test_who_asks_what_has_changed_since_learns_of_the_numbers(tmp_path):
    """A client may have a table that an earlier server filled, without them."""
    _, last, of_device = upgraded(tmp_path, (EARLIER, None))
    assert of_device == last == 8


def test_of_what_has_no_numbers_nothing_has_changed(tmp_path):
    _, last, of_device = upgraded(tmp_path, (None, None))
    assert of_device == last == 7


def test_what_devices_sent_is_known_as_far_as_it_shows(tmp_path):
    origins = {"/1/0/1": "'read'", "/1/0/2": "'subscription'", "/1/0/3": "'auto_observation'", "/1/0/4": "NULL"}
    resources = (
        "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable, reported_at,"
        f" reported_origin) VALUES ('d', '{path}', 1, '', '', 1, 5, {origin})"
        for path, origin in origins.items()
    )
    simulated = "INSERT INTO simulated_devices (device_id, document) VALUES ('d', '{}')"
    with upgraded_from(tmp_path, "0008", simulated, *resources) as session:
        heard = {path: heard_at for _, path, _, heard_at in stored_resources.last_observed_of_simulated(session)}
        auto_observed = {each.path for each in stored_resources.announced(session, "d") if each.auto_observed}
    assert heard == {"/1/0/2": 5, "/1/0/3": 5}
    assert auto_observed == {"/1/0/3"}


def test_of_what_waited_before_somebody_is_told(tmp_path):
    waiting = (
        "INSERT INTO commands (app_id, async_id, device_id, method, path, requested_at, expires_at, retries)"
        " VALUES ('a', 'r', 'd', 'GET', '/1/0/1', 1, 9, 0)"
    )
    with upgraded_from(tmp_path, "0018", waiting) as session:
        (command,) = stored_commands.waiting(session, "d")
    assert not command.is_silent


def test_a_failed_write_of_before_is_not_acknowledged(tmp_path):
    failed = (
        "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable, desired_value,"
        " desired_status, desired_at, requested_at) VALUES ('d', '/1/0/1', 1, '', '', 1, '1', 2, 5, 4)"
    )
    with upgraded_from(tmp_path, "0021", failed) as session:
        resource = stored_resources.find(session, "d", "/1/0/1")
    assert (resource.desired_status, resource.acknowledged_at, resource.acknowledged_by) == (2, None, None)


def test_of_a_device_that_was_there_nothing_is_said_and_nothing_is_listed(tmp_path):
    with upgraded_from(tmp_path, "0017") as session:
        assert descriptions.of_device(session, "d") == descriptions.NO_DESCRIPTION
        (found,) = devices.page(
            session, [Condition(descriptions.NAME, "IN", ("d",))], after=None, descending=False, limit=9
        )
        assert (found.device_id, found.updated_at) == ("d", 1)
        assert device_events.page(session, (), after=None, descending=False, limit=9) == []
        assert device_queries.count(session) == 0


def test_resource_that_is_auto_observed_can_be_subscribed_after_the_upgrade(tmp_path):
    columns = "device_id, path, present, resource_type, content_type, observable, auto_observed"
    rows = (
        f"INSERT INTO resources ({columns}) VALUES ('d', '/1/0/{number}', 1, '', '', {observable}, {auto})"
        for number, (observable, auto) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)])
    )
    with upgraded_from(tmp_path, "0021", *rows) as session:
        found = {each.path: each.observable for each in stored_resources.announced(session, "d")}
    assert found == {"/1/0/0": False, "/1/0/1": True, "/1/0/2": True, "/1/0/3": True}
