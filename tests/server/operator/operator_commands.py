"""Commands of an operator on a database, and what they end with."""

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
    """What a command says that does what it is asked."""
    ended = run(url, *arguments)
    assert ended.exit_code == 0, ended.output
    return ended.output


def refused(url: str, *arguments: object, told: str, code: int = 1) -> Result:
    """What comes of a command that ends with an error which tells this."""
    ended = run(url, *arguments)
    assert (ended.exit_code, type(ended.exception)) == (code, SystemExit), ended.output
    assert told in ended.output
    return ended


def refused_in_one_line(url: str, *arguments: object, told: str) -> str:
    """The one line of a command that ends with an error which tells this."""
    ended = refused(url, *arguments, told=told)
    assert ended.output.startswith("Error: ")
    assert ended.output.count("\n") == 1
    return ended.output


def stored_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("mirror.db*")))


def is_nothing_left(folder: Path, *told: str) -> bool:
    """Whether none of these words is in the files of a database that is one of files."""
    return databases.ON_POSTGRESQL or not any(each.encode() in stored_bytes(folder) for each in told)


def erased_rows(url: str, device_id: str) -> dict[str, int]:
    """The rows of a device that were erased, by their tables."""
    receipt = json.loads(done(url, "erase", device_id, "--yes"))
    assert receipt["device_id"] == device_id
    refused(url, "erase", device_id, "--yes", told="nothing is stored")
    return receipt["rows"]
