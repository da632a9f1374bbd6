"""What an older version stored is put in order by its times, where these tell it."""

import databases

from mirror_server.store import devices, revisions
from mirror_server.store.database import Database

EARLIER, BOTH, LATER = 1_000, 2_000, 3_000


def upgraded(tmp_path, *times, last_revision=7):
    """The numbers of resources of (reported at, desired at), of the mirror and of the device, after the upgrade."""
    url = databases.new_database_url(tmp_path, template="template0")
    databases.upgrade_to(url, "0011")
    databases.execute(
        url,
        f"UPDATE revisions SET last_revision = {last_revision}",
        "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
        " created_at, updated_at, last_contact_at, registration_expires_at, revision)"
        f" VALUES ('d', 'd', 'D', 1, 0, 60, 1, 1, 1, 9, {last_revision})",
        *(
            "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable, reported_at,"
            f" desired_at) VALUES ('d', '/1/0/{number}', 1, '', '', 1, {reported or 'NULL'}, {desired or 'NULL'})"
            for number, (reported, desired) in enumerate(times)
        ),
    )
    database = Database(url)
    with database.read() as session:
        found = sorted(devices.resources(session, "d"), key=lambda each: each.path)
        last = revisions.last(session)
        of_device = session.scalar("SELECT revision FROM devices")
    database.close()
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
