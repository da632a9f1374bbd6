"""Backup and restore of a PostgreSQL database."""

import databases
from operator_commands import refused


def test_a_postgresql_database_is_copied_by_its_own_tools(tmp_path):
    url = databases.new_postgresql_url()
    for arguments in (["backup", tmp_path / "x"], ["restore", __file__]):
        refused(url, *arguments, told="pg_dump")
