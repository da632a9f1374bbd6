"""The databases of the tests: SQLite files, or databases of a PostgreSQL of their own.

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
"""Before there is a next version."""

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
    # Sockets, codecs, and what is decided of real devices.
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
    # Rejected, described, formatted or limited before anything is stored or read.
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
    # Sockets, logs, signals and options of the process; the commands, the SDK and programs above the interface.
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
    # They start what they compare, PostgreSQL as well, themselves.
    "process/test_process_benchmarks.py",
)
"""Tests below this folder that are not run again on PostgreSQL: no SQL, transaction, notification or leadership makes
what they look at. Everything else below ``server`` and ``extensions``, and ``process/test_process_*.py``, runs on both.
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
    """Add the folders to PATH in which Debian keeps the programs of PostgreSQL's server.

    Only tests in ``tests/system``, and runs of the others on PostgreSQL, do so: without it a test elsewhere that needs
    PostgreSQL fails on every machine, and not only where PostgreSQL is missing.
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
    """In memory, where that has room for the databases: each is 8 MB, and copied for each test."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 2**30 else "/tmp"


@cache
def cluster() -> Cluster:
    """The PostgreSQL of this run, with a template whose schema is the newest; not for what must survive a crash."""
    no_log = ("fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0")
    # Nor does it commit anything by itself, which a server would take for a change.
    started = Cluster(*no_log, "autovacuum=off", "max_connections=200", parent=_quick_folder())
    started.execute("CREATE DATABASE template")
    open_database(started.url("template")).close()
    return started


@cache
def _file() -> Path:
    """The SQLite file of this run that the others are copies of; its schema is the newest."""
    made = Path(tempfile.mkdtemp(prefix="mirror-sqlite-")) / "mirror.db"
    open_database(f"sqlite:///{made}").close()
    return made


def make_template() -> None:
    """Make what the databases of this run are copies of, with the branches that the program has now."""
    cluster() if ON_POSTGRESQL else _file()


def new_database_url(folder: Path, *, template: str = "template") -> str:
    """A database of its own for a test, with the newest schema, or with ``template0`` without any.

    It is a copy: to make the schema for each test took longer than most tests. What is there already is left.
    """
    if ON_POSTGRESQL:
        return new_postgresql_url(template)
    path = folder / "mirror.db"
    if template != "template0" and not path.exists():
        shutil.copy(_file(), path)
    return f"sqlite:///{path}"


_made: list[str] = []


def new_postgresql_url(template: str = "template") -> str:
    """A database like the template; like ``template0`` it is empty."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(cluster().url("postgres"), autocommit=True) as connection:
        # To copy the files takes half as long as to log their pages, and was all there was before PostgreSQL 15.
        strategy = "STRATEGY file_copy" if connection.info.server_version >= 15_00_00 else ""
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} {strategy}".encode())
    _made.append(name)
    return cluster().url(name)


def mark() -> int:
    """How many PostgreSQL databases there are, for :func:`drop_since`."""
    return len(_made)


def drop_since(first: int) -> None:
    """Drop the PostgreSQL databases that were made since then."""
    for name in _made[first:]:
        cluster().execute(f"DROP DATABASE {name} WITH (FORCE)")
    del _made[first:]


def remove_templates() -> None:
    """Stop the PostgreSQL of this run, if it was started, and remove the file."""
    if cluster.cache_info().currsize:
        cluster().remove()
    if _file.cache_info().currsize:
        shutil.rmtree(_file().parent)


def query(url: str, statement: str) -> list[Any]:
    """The rows of a statement on a connection of its own, past all of the server."""
    with closing(_connect(url)) as connection, connection:
        return connection.execute(statement).fetchall()


def execute(url: str, *statements: str) -> None:
    """Execute statements on a connection of their own; SQLite holds no foreign keys there."""
    with closing(_connect(url)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def tables(url: str) -> set[str]:
    source = "pg_tables WHERE schemaname = 'public'" if is_postgresql(url) else "sqlite_master WHERE type = 'table'"
    column = "tablename" if is_postgresql(url) else "name"
    # What a process stores of itself with every transaction.
    return {name for (name,) in query(url, f"SELECT {column} FROM {source}")} - {"processes"}


def open_before(url: str, extension: Branch) -> Database:
    """Open a database with the core as the program had it before there was a next version, and with this extension."""
    return Database(url, [*STORAGES, Storage(branch=extension)], core=_CORE)


def new_database_of_version(version: str, folder: Path) -> str:
    """Make a database whose core has this version, with one device ``d1`` that has one resource ``/3/0/0``."""
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
    """The core with one version more."""
    core = Branch("core", folder / "core")
    shutil.copytree(_CORE.folder, core.folder)
    (core.folder / f"{int(_CORE.newest) + 1:04}.sql").write_text(_NEXT_OF_CORE)
    return core


def extension(folder: Path, version: int) -> Branch:
    """An extension that knows so many versions of its schema."""
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
"""Valid in every version, because a column that a migration adds has a default."""

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
