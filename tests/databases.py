"""Test databases: SQLite files, or databases of a PostgreSQL server that the tests start.

``MIRROR_TEST_DATABASE=postgresql`` runs the tests that use :func:`new_database_url` on PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from mirror_server.hooks import Extensions, open_database
from mirror_server.store import schema
from mirror_server.store.backend import Storage
from mirror_server.store.database import Database
from mirror_server.store.schema import Branch

_CORE, STORAGES = schema.CORE, tuple(Extensions().storages)
"""The core before :func:`next_core` adds a version."""

ON_POSTGRESQL = os.environ.get("MIRROR_TEST_DATABASE") == "postgresql"

SAME_ON_EVERY_DATABASE = (
    # Decisions and simulated devices in memory.
    "server/core/test_pure_decisions.py",
    "extensions/simulator/test_device_models.py",
    "extensions/simulator/test_simulator_backend.py",
    "extensions/simulator/test_simulator_commands.py",
    "extensions/simulator/test_simulator_outbox.py",
    "extensions/simulator/test_simulator_restart.py",
    "extensions/simulator/test_simulator_intervals.py",
    "extensions/simulator/test_simulator_rooms.py",
    # Sockets, codecs, and decisions about real devices.
    "extensions/lwm2m/test_coap.py",
    "extensions/lwm2m/test_coap_malformed_input.py",
    "extensions/lwm2m/test_coap_sockets.py",
    "extensions/lwm2m/test_device_command.py",
    "extensions/lwm2m/test_device_wire.py",
    "extensions/lwm2m/test_lwm2m_server.py",
    "extensions/lwm2m/test_links.py",
    "extensions/lwm2m/test_payloads.py",
    "extensions/lwm2m/test_registration_parameters.py",
    "extensions/lwm2m/test_requests_to_devices.py",
    # Input and output that is rejected, described, formatted or limited before the database is used.
    "extensions/openapi/",
    "server/interface/test_bodies.py",
    "server/interface/test_bounded_polls.py",
    "server/interface/test_asgi_bridge_limits.py",
    "server/interface/test_failed_keys.py",
    "server/interface/test_malformed_input.py",
    "extensions/history/test_unread_downloads.py",
    "extensions/page/",
    "extensions/streams/test_stream_limits.py",
    "extensions/postgresql/",
    "server/interface/test_errors.py",
    # Sockets, logs, signals and options of the process; the commands, the SDK and programs that use the interface.
    "process/test_process_command.py",
    "process/test_process_command_output.py",
    "process/test_process_conformance.py",
    "process/test_process_dask.py",
    "process/test_process_demo.py",
    "process/test_process_example_app.py",
    "process/test_process_fork.py",
    "process/test_process_full_disk.py",
    "process/test_process_malformed_requests.py",
    "process/test_process_log_format.py",
    "process/test_process_mirror_and_real_device.py",
    "process/test_process_mirror_command.py",
    "process/test_process_programs.py",
    "process/test_process_real_devices.py",
    "process/test_process_record.py",
    "process/test_process_secrets.py",
    "process/test_process_snapshot.py",
    "process/test_process_tls.py",
    "process/test_process_websocket_sdk.py",
    "process/test_process_widgets_again.py",
    "process/test_process_wsgi_servers.py",
    # These start the databases that they compare, including PostgreSQL.
    "process/test_process_benchmarks.py",
)
"""Tests below this folder that are not run again on PostgreSQL, because they involve no SQL, transaction, notification
or leadership. Everything else below ``server`` and ``extensions``, and ``process/test_process_*.py``, runs on both
databases.
"""

_numbers = count(1)


class Cluster:
    """A PostgreSQL server that listens on a socket in a temporary folder only."""

    def __init__(self, *settings: str, parent: str = "/tmp") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mirror-postgresql-", dir=parent))
        self._settings = ["listen_addresses=", f"unix_socket_directories={self.folder}", *settings]
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self._run("initdb", "--username=mirror", "--auth=trust", "--encoding=UTF8", "--no-sync", "--no-instructions")
        self.start()

    def url(self, name: str) -> str:
        return f"postgresql://mirror@/{name}?host={self.folder}"

    def start(self) -> None:
        options = " ".join(f"-c {setting}" for setting in self._settings)
        self._run("pg_ctl", "start", "--wait", f"--log={self.folder}/log", f"--options={options}")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "stop", "--wait", f"--mode={mode}")

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def _run(self, program: str, *arguments: str) -> None:
        command = [_program(program), f"--pgdata={self.folder}/data", *arguments]
        # PostgreSQL does not run as root.
        user = "postgres" if os.geteuid() == 0 else None
        subprocess.run(
            command, user=user, cwd=self.folder, check=True, timeout=60, stdout=subprocess.DEVNULL, stderr=sys.stderr
        )


def find_postgresql() -> None:
    """Add the folders of PostgreSQL's server programs on Debian to PATH.

    Only tests in ``tests/system`` and runs on PostgreSQL do so. Any other test that needs PostgreSQL then fails on
    every machine, not only on those without PostgreSQL.
    """
    folders = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *folders])


if ON_POSTGRESQL:
    find_postgresql()


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"no {name} in PATH: tests that need PostgreSQL are in tests/system (apt-get install postgresql)"
    return found


def _quick_folder() -> str:
    """Return a folder in memory if it has enough space: each database has 8 MB and is copied for each test."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 2**30 else "/tmp"


@cache
def cluster() -> Cluster:
    """Start the PostgreSQL server of this run, with a template of the newest schema. It does not survive a crash."""
    no_log = ("fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0")
    # No vacuum either, because a server would notice its commits as changes.
    started = Cluster(*no_log, "autovacuum=off", "max_connections=200", parent=_quick_folder())
    started.execute("CREATE DATABASE template")
    open_database(started.url("template")).close()
    return started


@cache
def _file() -> Path:
    """Create the SQLite file of this run, with the newest schema, of which the others are copies."""
    made = Path(tempfile.mkdtemp(prefix="mirror-sqlite-")) / "mirror.db"
    open_database(f"sqlite:///{made}").close()
    return made


def make_template() -> None:
    """Create the template of this run's databases, with the current branches of the program."""
    cluster() if ON_POSTGRESQL else _file()


def new_database_url(folder: Path, *, template: str = "template") -> str:
    """Create a database for a test, with the newest schema, or with ``template0`` without a schema.

    It is a copy, because creating the schema for each test took longer than most tests. An existing file remains.
    """
    if ON_POSTGRESQL:
        return new_postgresql_url(template)
    path = folder / "mirror.db"
    if template != "template0" and not path.exists():
        shutil.copy(_file(), path)
    return f"sqlite:///{path}"


_made: list[str] = []


def new_postgresql_url(template: str = "template") -> str:
    """Create a PostgreSQL database as a copy of the template; ``template0`` is empty."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(cluster().url("postgres"), autocommit=True) as connection:
        # Copying the files takes half as long as logging their pages. Before PostgreSQL 15 it was the only way.
        strategy = "STRATEGY file_copy" if connection.info.server_version >= 15_00_00 else ""
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} {strategy}".encode())
    _made.append(name)
    return cluster().url(name)


def mark() -> int:
    """Return the number of PostgreSQL databases so far, for :func:`drop_since`."""
    return len(_made)


def drop_since(first: int) -> None:
    """Drop the PostgreSQL databases that were created after ``first``."""
    for name in _made[first:]:
        cluster().execute(f"DROP DATABASE {name} WITH (FORCE)")
    del _made[first:]


def remove_templates() -> None:
    """Stop the PostgreSQL server of this run, if it was started, and remove the SQLite file."""
    if cluster.cache_info().currsize:
        cluster().remove()
    if _file.cache_info().currsize:
        shutil.rmtree(_file().parent)


def query(url: str, statement: str) -> list[Any]:
    """Return the rows of a statement, on a separate connection that bypasses the server."""
    with closing(_connect(url)) as connection, connection:
        return connection.execute(statement).fetchall()


def execute(url: str, *statements: str) -> None:
    """Execute statements on a separate connection, on which SQLite does not enforce foreign keys."""
    with closing(_connect(url)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def tables(url: str) -> set[str]:
    source = "pg_tables WHERE schemaname = 'public'" if is_postgresql(url) else "sqlite_master WHERE type = 'table'"
    column = "tablename" if is_postgresql(url) else "name"
    # Every process stores a row about itself with each transaction.
    return {name for (name,) in query(url, f"SELECT {column} FROM {source}")} - {"processes"}


def open_before(url: str, extension: Branch) -> Database:
    """Open a database with the earlier version of the core and with this extension."""
    return Database(url, [*STORAGES, Storage(branch=extension)], core=_CORE)


def new_database_of_version(version: str, folder: Path) -> str:
    """Create a database whose core has this version, with a device ``d1`` that has a resource ``/3/0/0``."""
    core = branch_of_version(_CORE, version, folder)
    url = new_database_url(folder, template="template0")
    # Without the tables of extensions, which may need a later core.
    with closing(Database(url, core=core)) as database:
        database.write(lambda session: [session.run(each, value=b"Maker") for each in _DEVICE])
    return url


def branch_of_version(branch: Branch, version: str, folder: Path) -> Branch:
    """Copy a branch with its migrations up to this version."""
    copied = Branch(branch.name, folder / f"{branch.name}-{version}")
    copied.folder.mkdir()
    for migration in branch.migrations:
        if migration.stem <= version:
            shutil.copy(migration, copied.folder)
    return copied


def next_core(folder: Path) -> Branch:
    """Return a core with one more version."""
    core = Branch("core", folder / "core")
    shutil.copytree(_CORE.folder, core.folder)
    (core.folder / f"{int(_CORE.newest) + 1:04}.sql").write_text(_NEXT_OF_CORE)
    return core


def extension(folder: Path, version: int) -> Branch:
    """Return an extension with this number of schema versions."""
    branch = Branch("labels", folder / f"labels-{version}")
    branch.folder.mkdir()
    for number, statements in enumerate(_OF_EXTENSION[:version], 1):
        (branch.folder / f"{number:04}.sql").write_text(statements)
    return branch


_DEVICE = (
    "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
    " created_at, updated_at, last_contact_at, registration_expires_at, revision, backend)"
    " VALUES ('d1', 'sensor-1', '', 0, 0, 60, 1000, 1000, 1000, 61000, 1, 'real')",
    "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable,"
    " reported_value, reported_content_type, reported_at, reported_revision, reported_origin)"
    " VALUES ('d1', '/3/0/0', 1, '', 'text/plain', 1, :value, 'text/plain', 2000, 1, 'read')",
    "UPDATE revisions SET last_revision = 1",
)
"""Statements that are valid in every version, because a column that a migration adds has a default."""

_NEXT_OF_CORE = """
ALTER TABLE settings ADD COLUMN length INTEGER NOT NULL DEFAULT 0;
UPDATE settings SET length = length(value);
CREATE TABLE names (name TEXT NOT NULL PRIMARY KEY);
INSERT INTO names SELECT name FROM settings;
"""

_OF_EXTENSION = (
    """
CREATE TABLE labels (label TEXT NOT NULL PRIMARY KEY, device_id TEXT REFERENCES devices ON DELETE CASCADE);
INSERT INTO labels VALUES ('first', NULL);
""",
    """
ALTER TABLE labels ADD COLUMN length INTEGER NOT NULL DEFAULT 0;
UPDATE labels SET length = length(label);
""",
)


def is_postgresql(url: str) -> bool:
    return url.startswith("postgresql")


def _connect(url: str) -> Any:
    return psycopg.connect(url) if is_postgresql(url) else sqlite3.connect(url.removeprefix("sqlite:///"))
