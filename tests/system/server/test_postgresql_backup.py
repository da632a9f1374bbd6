"""Backup and restore of a PostgreSQL database."""

import databases
from operator_commands import assert_fails


def test_backup_and_restore_of_postgresql_point_to_pg_dump(tmp_path):
    url = databases.new_postgresql_url()
    for arguments in (["backup", tmp_path / "x"], ["restore", __file__]):
        assert_fails(url, *arguments, message="pg_dump")
