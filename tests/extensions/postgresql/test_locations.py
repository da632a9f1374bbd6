"""PostgreSQL databases that cannot be opened: one error with a fix and without a password."""

import sys

import pytest
from operator_commands import assert_fails_in_one_line

from mirror_server.core.errors import CannotServe
from mirror_server.hooks import Extensions, open_database, read_settings
from mirror_server.store.backend import DatabaseError

NOT_THERE = "postgresql://user:secret@127.0.0.1:1/none"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (NOT_THERE, "check that PostgreSQL runs there"),
        ("postgres://user:secret@/none?host=/nowhere", "check that PostgreSQL runs there"),
        ("postgresql://%", "cannot open"),
    ],
)
def test_unavailable_server_is_error_without_password(url, message):
    for arguments in (["keys", "list"], ["check"]):
        assert "secret" not in assert_fails_in_one_line(url, *arguments, message=message)


def test_command_for_files_names_postgresql_programs(tmp_path):
    open_database(f"sqlite:///{tmp_path}/copy.db").close()
    assert_fails_in_one_line(NOT_THERE, "restore", tmp_path / "copy.db", message="for PostgreSQL use pg_restore")


def test_missing_driver_is_error_with_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "mirror_server.extensions.postgresql.store.backend", None)
    with pytest.raises(DatabaseError, match=r"cannot use a PostgreSQL database: .*pip install 'device-state-mirror\["):
        open_database(NOT_THERE)


def test_database_of_omitted_extension_is_rejected():
    settings = read_settings(database_url=NOT_THERE, without=("postgresql",))
    with pytest.raises(CannotServe, match=r"user@127.* needs the extension postgresql, .* not loaded: --without"):
        Extensions(settings.without).check(settings)
