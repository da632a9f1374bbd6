"""Backup and restore of a PostgreSQL database."""

import databases
from operator_commands import assert_fails


def test_a_postgresql_database_is_copied_by_its_own_tools(tmp_path):
    url = databases.new_postgresql_url()
    for arguments in (["backup", tmp_path / "x"], ["restore", __file__]):
        assert_fails(url, *arguments, message="pg_dump")
