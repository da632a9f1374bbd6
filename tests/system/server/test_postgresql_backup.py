"""Backup and restore of a PostgreSQL database."""

import databases
from operator_commands import assert_fails


def test_backup_and_restore_of_postgresql_point_to_its_own_tools(tmp_path):
    url = databases.new_postgresql_url()
    assert_fails(url, "backup", tmp_path / "x", message="pg_dump")
    assert_fails(url, "restore", __file__, message="use pg_restore, then 'mirror-server mark-restored'")
