"""Everything that the server writes is readable by its owner only, for every umask."""

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from histories import DAY

from mirror_server.cli import main
from mirror_server.extensions.history.archive import Archive
from mirror_server.hooks import open_database, read_settings
from mirror_server.server import Services

pytestmark = pytest.mark.sqlite


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = os.umask(0)
    yield tmp_path
    os.umask(before)


def exposed(folder: Path) -> dict[str, str]:
    """Return the modes of files and folders that others than their owner may use."""
    modes = {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    return {name: oct(mode) for name, mode in modes.items() if mode & 0o077}


def test_files_of_database_and_commands_are_private(folder):
    database_url = f"sqlite:///{folder / 'mirror.db'}"
    keeping = {"keep_history_seconds": DAY, "history_archive": str(folder / "archive")}
    services = Services(read_settings(database_url=database_url, **keeping))
    services.start()
    with closing(open_database(database_url)):
        for arguments in (
            ("backup", str(folder / "backup.db"), "--database", database_url),
            ("restore", str(folder / "backup.db"), "--database", f"sqlite:///{folder / 'restored.db'}"),
            ("keys", "create", "app", "--database", f"sqlite:///{folder / 'new.db'}"),
        ):
            assert CliRunner().invoke(main, arguments).exit_code == 0
        suffixes = {path.name.removeprefix("mirror.db") for path in folder.glob("mirror.db?*")}
        assert {"-wal", "-shm", ".lock"} <= suffixes
        assert exposed(folder) == {}
    services.close()
    assert exposed(folder) == {}


def test_archive_file_is_private_while_written(folder):
    archive = Archive(str(folder / "far" / "archive"))
    archive.make()
    with archive.writing("day=2026-11-22/devices-a-000001-0001.parquet"):
        assert exposed(folder) == {}
