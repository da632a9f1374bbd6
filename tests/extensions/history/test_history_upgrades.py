"""Databases whose history was written with an older schema."""

from contextlib import closing

import databases

from mirror_server.extensions.history.store import history
from mirror_server.hooks import open_database
from mirror_server.store.backend import Storage
from mirror_server.store.database import Database


def test_upgrade_of_version_0001_keeps_state_of_history(tmp_path):
    (newest,) = (storage.branch for storage in databases.STORAGES if storage.branch.name == "history")
    url = databases.new_database_url(tmp_path, template="template0")
    Database(url, [Storage(branch=databases.branch_of_version(newest, "0001", tmp_path))]).close()
    databases.execute(
        url,
        "UPDATE history_state SET sealed_revision = 3, is_kept = 1, begun_revision = 2",
        "UPDATE history_state SET alive_at = 5000, base_at = 4000",
    )
    with closing(open_database(url)) as database:
        assert database.query(history.state) == history.State(3, True, 2, 5000, 4000)
