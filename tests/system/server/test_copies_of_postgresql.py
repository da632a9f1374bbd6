"""Backup and restore of a PostgreSQL database."""

import databases
from test_maintenance import mirror_server


def test_a_postgresql_database_is_copied_by_its_own_tools(tmp_path):
    url = databases.new_postgresql_url()
    for arguments in (["backup", tmp_path / "x"], ["restore", __file__]):
        refused = mirror_server(*arguments, "--database", url)
        assert refused.exit_code == 1
        assert "pg_dump" in refused.output
