"""What is left of a SQLite file when the making or upgrading of its schema is interrupted: does it open again?

``python tests/interrupted_upgrades.py`` prints the table of all upgrades and interruptions.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from unittest import mock

import databases

import mirror_server.store
from mirror_server.store import settings
from mirror_server.store.database import Database

NONE = "none"
"""The version of a file that is not there yet."""

VERSIONS = [
    NONE,
    *sorted(
        path.name.partition("_")[0]
        for path in (Path(mirror_server.store.__file__).parent / "migrations" / "versions").glob("[0-9]*.py")
    ),
]
NEWEST = VERSIONS[-1]
STEPS = list(pairwise(VERSIONS))
UPGRADES = [*STEPS, (NONE, NEWEST), ("0001", NEWEST)]
TORN_STEPS = [step for step in STEPS if step[1] <= "0008"]
"""Those of programs that put each statement of an upgrade on disk by itself; no later one did."""

_HELD = (
    "INSERT INTO settings VALUES ('kept', 'x')",
    "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
    " created_at, updated_at, last_contact_at, registration_expires_at) VALUES ('d', 'e', '', 1, 0, 60, 0, 0, 5, 0)",
    "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable, desired_command_id,"
    " desired_status) VALUES ('d', '/1/0/0', 1, '', '', 0, 7, 1)",
)
_CHANGING = {"ALTER", "CREATE", "DELETE", "DROP", "INSERT", "UPDATE"}
_LIMITS_PAGES = (0, 2, 8, 32)

State = dict[str, bytes]
"""The files of a database as they are on disk, by the end of their names: what a kill leaves."""


@dataclass(frozen=True)
class Left:
    """What an interruption left: it opens, or why it does not."""

    state: State
    problem: str | None


@cache
def file_of(version: str) -> State:
    """A database that a program of this version served."""
    with _folder() as path:
        if version != NONE:
            databases.upgrade_to(f"sqlite:///{path}", version)
            databases.execute(f"sqlite:///{path}", "PRAGMA journal_mode = WAL", *_HELD)
        return _read(path)


def states_during(older: str, newer: str) -> list[State]:
    """What a kill before each of the statements of an upgrade leaves."""
    states: list[State] = []
    with _folder(file_of(older)) as path:
        with _each_statement(lambda _statement: states.append(_read(path))):
            _upgrade(path, newer)
        return [*states, _read(path)]


def states_torn(older: str, newer: str) -> list[State]:
    """What a kill left when each statement was on disk by itself, before the number of the version was."""
    states: list[State] = []
    with _folder(file_of(older)) as path, closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in _changes(older, newer)[:-1]:
            connection.execute(statement)
            states.append(_read(path))
    return states


def states_killed(older: str, with_signal: signal.Signals) -> Iterator[State]:
    """What processes leave that are killed at statements from the first of an upgrade to its end."""
    count = len(states_during(older, NEWEST)) - 1
    for number in range(1, count + 1, max(1, count // 3)):
        with _folder(file_of(older)) as path:
            status = _in_a_process(lambda path=path, number=number: _upgrade_and_die(path, number, with_signal))
            assert os.WTERMSIG(status) == with_signal
            yield _read(path)


def states_on_full_disk(older: str) -> Iterator[State]:
    """What processes leave that find so and so little room."""
    for pages in _LIMITS_PAGES:
        with _folder(file_of(older)) as path:
            _in_a_process(lambda path=path, pages=pages: _upgrade_with_little_room(path, pages))
            yield _read(path)


def looked_at(states: Iterator[State] | list[State], older: str) -> list[Left]:
    """Open each of the states; those that are alike are opened once."""
    problems: dict[tuple[tuple[str, bytes], ...], str | None] = {}
    left = []
    for state in states:
        key = tuple(sorted(state.items()))
        if key not in problems:
            problems[key] = _problem(state, older)
        left.append(Left(state, problems[key]))
    return left


def _problem(state: State, older: str) -> str | None:
    """Why the files do not open with the newest schema and all they held, or ``None``."""
    with _folder(state) as path:
        try:
            database = Database(f"sqlite:///{path}")
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        with closing(database), database.read() as session:
            if older != NONE and settings.get(session, "kept") != "x":
                return "what it held is lost"
            if found := database.violations():
                return str(found)
            if session.rows("SELECT last_revision FROM revisions") != [(0,)]:
                return "the revisions have not one row"
        return None if schema_of(path) == _newest_schema() else "the schema is not the newest one"


def schema_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The columns of each table, and the statements of the indexes."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {name: connection.execute("SELECT * FROM pragma_table_info(?)", (name,)).fetchall() for name in names}
        indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name")
        return columns | {"indexes": indexes.fetchall()}


@cache
def _newest_schema() -> dict[str, list[tuple[object, ...]]]:
    with _folder() as path:
        databases.upgrade_to(f"sqlite:///{path}", NEWEST)
        return schema_of(path)


@cache
def _changes(older: str, newer: str) -> list[str]:
    """The statements of an upgrade that change something."""
    statements: list[str] = []
    with _folder(file_of(older)) as path, _each_statement(statements.append):
        databases.upgrade_to(f"sqlite:///{path}", newer)
    return [statement for statement in statements if statement.split()[0] in _CHANGING]


def _upgrade(path: Path, version: str) -> None:
    """As a program does whose newest version this is."""
    if version == NEWEST:
        Database(f"sqlite:///{path}").close()
    else:
        databases.upgrade_to(f"sqlite:///{path}", version)


def _in_a_process(work: Callable[[], None]) -> int:
    """How a process ended that did this."""
    child = os.fork()
    if not child:
        with contextlib.suppress(Exception):
            work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status


def _upgrade_and_die(path: Path, number: int, with_signal: signal.Signals) -> None:
    statements: list[str] = []

    def note(statement: str) -> None:
        statements.append(statement)
        if len(statements) == number:
            os.kill(os.getpid(), with_signal)

    with _each_statement(note):
        _upgrade(path, NEWEST)


def _upgrade_with_little_room(path: Path, pages: int) -> None:
    """Let no file grow beyond the size the database has by more than some pages, as if the disk were full."""
    size = path.stat().st_size if path.exists() else 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + pages * 4096, resource.RLIM_INFINITY))
    _upgrade(path, NEWEST)


@contextmanager
def _each_statement(note: Callable[[str], object]) -> Iterator[None]:
    """Have every statement on every new connection noted before it is executed."""
    connect = sqlite3.connect

    def traced(*arguments: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(note)
        return connection

    with mock.patch("sqlite3.connect", traced), mock.patch("sqlite3.dbapi2.connect", traced):
        yield


@contextmanager
def _folder(state: State | None = None) -> Iterator[Path]:
    """A database's path in a folder of its own, with these files."""
    folder = Path(tempfile.mkdtemp(prefix="interrupted-"))
    path = folder / "mirror.db"
    try:
        for end, content in (state or {}).items():
            path.with_name(path.name + end).write_bytes(content)
        yield path
    finally:
        shutil.rmtree(folder)


def _read(path: Path) -> State:
    # The index of the log is made anew by the first who opens it.
    files = {end: path.with_name(path.name + end) for end in ("", "-wal", "-journal")}
    return {end: file.read_bytes() for end, file in files.items() if file.exists()}


def print_table(*, only_processes: bool = False) -> None:
    """Print how many files open after an interruption, of how many, for each upgrade by one version and by all.

    Args:
        only_processes: Leave out what needs no processes, the interruption at each statement, and most versions.
    """
    problems: Counter[str] = Counter()

    def cell(states: Iterator[State] | list[State], older: str) -> str:
        left = looked_at(states, older)
        problems.update(re.sub(r"/\S+/", "", one.problem) for one in left if one.problem is not None)
        return f"{sum(one.problem is None for one in left)}/{len(left)}".rjust(12)

    print("Files that open after an interruption / interruptions, by version of the file and of the program\n")
    print("from -> to  ", *(name.rjust(12) for name in ("statement", "SIGKILL", "SIGTERM", "full disk")))
    for older, newer in [(older, NEWEST) for older in (*VERSIONS[:2], VERSIONS[-2])] if only_processes else UPGRADES:
        cells = ["".rjust(12) if only_processes else cell(states_during(older, newer), older)]
        if newer == NEWEST:
            cells += [cell(states_killed(older, one), older) for one in (signal.SIGKILL, signal.SIGTERM)]
            cells.append(cell(states_on_full_disk(older), older))
        print(f"{older} -> {newer}", *cells, flush=True)
    if not only_processes:
        print("\nFiles in which each statement was on disk by itself, before the version's number was\n")
        for older, newer in TORN_STEPS:
            print(f"{older} -> {newer}", cell(states_torn(older, newer), older), flush=True)
    for problem, times in problems.most_common():
        print(f"\n{times} x {problem}")


if __name__ == "__main__":
    logging.disable()
    print_table(only_processes="--only-processes" in sys.argv)
