"""Databases of PostgreSQL that cannot be opened: each is one error that tells what to do, and no password."""

import sys

import pytest
from operator_commands import assert_fails_in_one_line

from mirror_server.core.errors import CannotServe
from mirror_server.hooks import Extensions, open_database, read_settings
from mirror_server.store.backend import DatabaseError

NOT_THERE = "postgresql://nobody:secret@127.0.0.1:1/none"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (NOT_THERE, "check that PostgreSQL runs there"),
        ("postgres://nobody:secret@/none?host=/nowhere", "check that PostgreSQL runs there"),
        ("postgresql://%", "cannot open"),
    ],
)
def test_a_server_that_is_not_there_is_one_clear_error_without_the_password(url, told):
    for arguments in (["keys", "list"], ["check"]):
        assert "secret" not in assert_fails_in_one_line(url, *arguments, message=told)


def test_what_is_for_files_names_the_programs_for_others(tmp_path):
    open_database(f"sqlite:///{tmp_path}/copy.db").close()
    assert_fails_in_one_line(NOT_THERE, "restore", tmp_path / "copy.db", message="use pg_dump and pg_restore")


def test_without_its_driver_it_tells_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mirror_server.extensions.postgresql.store.backend", None)
    with pytest.raises(DatabaseError, match=r"cannot use a PostgreSQL database: .*pip install 'device-state-mirror\["):
        open_database(NOT_THERE)


def test_where_the_extension_is_left_out_its_databases_are_refused():
    settings = read_settings(database_url=NOT_THERE, without=("postgresql",))
    with pytest.raises(CannotServe, match=r"nobody@127.* needs the extension postgresql, .* left out: --without"):
        Extensions(settings.without).check(settings)
