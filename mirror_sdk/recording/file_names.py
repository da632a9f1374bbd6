"""The names of the files of a recording.

The folder contains the finalized files ``part-000001.parquet``, ``part-000002.parquet`` and so on, which have the same
schema. It contains nothing else, because Polars rejects a folder with any other file. The sidecar folder is next to it
and is called ``_run.parquet.mirror`` for ``run.parquet``. Because of the underscore, Arrow, pandas and Dask skip it
when they read the parent folder. No file name in the sidecar folder ends with ``.parquet``:

- ``recording.json`` contains the settings of the recording;
- ``journal-000002.arrows`` is the file that is being written: an Arrow stream, whose incomplete end is ignored;
- ``state-000001.pq`` is a state table, on which later events build;
- ``rules.json`` lists the rules that are removed when the recording ends;
- ``unfinished`` is a file that is renamed to one of the other names when it is complete;
- ``lock`` is the file that the running recorder locks.
"""

from __future__ import annotations

import re
from pathlib import Path

from mirror_sdk.errors import InvalidValue

_NUMBERED = re.compile(r"[a-z]+-(\d{6}|[1-9]\d{6,})\.[a-z]+")


def sidecar_of(folder: Path) -> Path:
    """Return the sidecar folder. It is the same for every link to the folder.

    Raises:
        InvalidValue: The folder is the root of a file system.
    """
    folder = folder.resolve()
    if not folder.name:
        raise InvalidValue(
            f"{folder} cannot be a recording, because a recording needs a second folder next to it; pass a subfolder"
        )
    return folder.with_name(f"_{folder.name}.mirror")


def settings_path(folder: Path) -> Path:
    """Return the path of the file with the settings."""
    return sidecar_of(folder) / "recording.json"


def rules_path(folder: Path) -> Path:
    """Return the path of the file that lists the rules to remove."""
    return sidecar_of(folder) / "rules.json"


def lock_path(folder: Path) -> Path:
    """Return the path of the lock file."""
    return sidecar_of(folder) / "lock"


def unfinished_path(folder: Path) -> Path:
    """Return the path of the file that is being written."""
    return sidecar_of(folder) / "unfinished"


def part_path(folder: Path, number: int) -> Path:
    """Return the path of a finalized file."""
    return folder / f"part-{number:06}.parquet"


def journal_path(folder: Path, number: int) -> Path:
    """Return the path of a journal."""
    return sidecar_of(folder) / f"journal-{number:06}.arrows"


def state_path(folder: Path, number: int) -> Path:
    """Return the path of a state table."""
    return sidecar_of(folder) / f"state-{number:06}.pq"


def part_numbers(folder: Path) -> list[int]:
    """Return the numbers of the finalized files, in order."""
    return _numbers(folder, "part-*.parquet")


def journal_numbers(folder: Path) -> list[int]:
    """Return the numbers of the journals, in order.

    A journal that was just finalized may still be included.
    """
    return _numbers(sidecar_of(folder), "journal-*.arrows")


def state_numbers(folder: Path) -> list[int]:
    """Return the numbers of the state tables, in order."""
    return _numbers(sidecar_of(folder), "state-*.pq")


def _numbers(folder: Path, pattern: str) -> list[int]:
    found = map(_NUMBERED.fullmatch, (path.name for path in folder.glob(pattern)))
    return sorted(int(match[1]) for match in found if match)
