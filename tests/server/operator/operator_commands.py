"""Commands of an operator on a database, and checks of their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import databases
from click.testing import CliRunner, Result

from mirror_server.cli import main


def run(url: str, *arguments: object, **options: Any) -> Result:
    """Run a command of ``mirror-server`` on a database."""
    return CliRunner().invoke(main, [*map(str, arguments), "--database", url], **options)


def done(url: str, *arguments: object) -> str:
    """Run a command that succeeds, and return its output."""
    ended = run(url, *arguments)
    assert ended.exit_code == 0, ended.output
    return ended.output


def assert_fails(url: str, *arguments: object, message: str, code: int = 1) -> Result:
    """Run a command that fails with an error that contains the message."""
    ended = run(url, *arguments)
    assert (ended.exit_code, type(ended.exception)) == (code, SystemExit), ended.output
    assert message in ended.output
    return ended


def assert_fails_in_one_line(url: str, *arguments: object, message: str) -> str:
    """Run a command that fails with an error of one line, and return the line."""
    ended = assert_fails(url, *arguments, message=message)
    assert ended.output.startswith("Error: ")
    assert ended.output.count("\n") == 1
    return ended.output


def stored_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("mirror.db*")))


def is_nothing_left(folder: Path, *words: str) -> bool:
    """Return whether the database files contain none of these words; true on PostgreSQL."""
    return databases.ON_POSTGRESQL or not any(each.encode() in stored_bytes(folder) for each in words)


def erased_rows(url: str, device_id: str) -> dict[str, int]:
    """Erase a device, and return the number of erased rows by table."""
    receipt = json.loads(done(url, "erase", device_id, "--yes"))
    assert receipt["device_id"] == device_id
    assert_fails(url, "erase", device_id, "--yes", message="nothing is stored")
    return receipt["rows"]
