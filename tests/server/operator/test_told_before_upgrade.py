"""What an older version stored of values and subscriptions goes on in the newest schema."""

import databases

from mirror_server.store import devices
from mirror_server.store.database import Database


def test_what_devices_sent_is_known_as_far_as_it_shows(tmp_path):
    url = databases.new_database_url(tmp_path, template="template0")
    databases.upgrade_to(url, "0008")
    origins = {"/1/0/1": "'read'", "/1/0/2": "'subscription'", "/1/0/3": "'auto_observation'", "/1/0/4": "NULL"}
    databases.execute(
        url,
        "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
        " created_at, updated_at, last_contact_at, registration_expires_at)"
        " VALUES ('d', 'd', 'D', 1, 0, 60, 1, 1, 1, 9)",
        "INSERT INTO simulated_devices (device_id, document) VALUES ('d', '{}')",
        *(
            "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable, reported_at,"
            f" reported_origin) VALUES ('d', '{path}', 1, '', '', 1, 5, {origin})"
            for path, origin in origins.items()
        ),
    )
    database = Database(url)
    with database.read() as session:
        heard = {path: heard_at for _, path, _, heard_at in devices.heard_of_simulated(session)}
        auto_observed = {each.path for each in devices.announced(session, "d") if each.auto_observed}
    database.close()
    assert heard == {"/1/0/2": 5, "/1/0/3": 5}
    assert auto_observed == {"/1/0/3"}
