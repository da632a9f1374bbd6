"""The server with PgBouncer: transaction mode is detected at the start, and session mode works."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import databases
import psycopg
import pytest

from mirror_server.hooks import open_database
from mirror_server.store.backend import DatabaseError


@contextmanager
def pgbouncer(folder: Path, pool_mode: str) -> Iterator[str]:
    """A PgBouncer in front of a new database; yields the URL through it."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "PgBouncer is missing: apt-get install pgbouncer"
    url = databases.new_postgresql_url("template0")
    with psycopg.connect(url) as connection:
        target = f"host={connection.info.host} dbname={connection.info.dbname} user=mirror"
    settings = {"unix_socket_dir": folder, "listen_port": 6543, "auth_type": "any", "pool_mode": pool_mode}
    lines = [f"{name} = {value}" for name, value in settings.items()]
    (folder / "pgbouncer.ini").write_text("\n".join(["[databases]", f"mirror = {target}", "[pgbouncer]", *lines]))
    folder.chmod(0o777)
    command = [program, "--user=postgres", str(folder / "pgbouncer.ini")]
    if os.geteuid() != 0:
        command.remove("--user=postgres")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert any("process up" in line for line in process.stderr)
        try:
            yield f"postgresql://mirror@/mirror?host={folder}&port=6543"
        finally:
            process.terminate()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path that is short enough for a socket, and with permissions for PostgreSQL's user."""
    made = databases.cluster().folder / "pgbouncer"
    made.mkdir()
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize(
    ("mode", "cure"), [("transaction", "pool_mode = session"), ("statement", "statement pooling mode")]
)
def test_a_mode_without_sessions_is_an_error_with_the_cure(folder: Path, mode: str, cure: str) -> None:
    with pgbouncer(folder, mode) as url, pytest.raises(DatabaseError, match=cure):
        open_database(url)


def test_session_mode_works(folder: Path) -> None:
    with pgbouncer(folder, "session") as url:
        database = open_database(url)
        database.close()
