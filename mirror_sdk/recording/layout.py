"""Where the files of a recording are.

The folder holds ``part-000001.parquet`` and the next ones: whole files of one schema, and nothing else, for Polars
refuses a folder with any other file in it. Beside it stands ``_run.parquet.mirror`` (for ``run.parquet``), which Arrow,
pandas and Dask pass over where they read the folder above, and in which no name ends in ``.parquet``:

- ``recording.json`` says what is recorded;
- ``journal-000002.arrows`` is what is being written: an Arrow stream of which a cut-off end is left out;
- ``state-000001.pq`` are state tables to begin from;
- ``rules.json`` names the rules that are to be taken away when the recording ends;
- ``unfinished`` becomes one of the others, when it is whole;
- ``lock`` is held by the recorder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from mirror_sdk.errors import InvalidValue

_NUMBERED = re.compile(r"[a-z]+-(\d{6}|[1-9]\d{6,8})\.[a-z]+")
_HIGHEST_BEGUN = 899_999_999
"""The highest number behind which a recorder begins, so that it does not run out of numbers before it ends."""


def beside(folder: Path) -> Path:
    """Where all is but the whole files; the same by whatever link the folder is reached.

    Raises:
        InvalidValue: There is no beside.
    """
    folder = folder.resolve()
    if not folder.name:
        raise InvalidValue(f"{folder} cannot be a recording, which needs a place beside it; give a folder in it")
    return folder.with_name(f"_{folder.name}.mirror")


def about_path(folder: Path) -> Path:
    """Where it stands what is recorded."""
    return beside(folder) / "recording.json"


def rules_path(folder: Path) -> Path:
    """Where it stands which rules are to be taken away."""
    return beside(folder) / "rules.json"


def lock_path(folder: Path) -> Path:
    """Where the lock is."""
    return beside(folder) / "lock"


def unfinished_path(folder: Path) -> Path:
    """Where the one file is that is being written and not to be seen."""
    return beside(folder) / "unfinished"


def part_path(folder: Path, number: int) -> Path:
    """Where a whole file is."""
    return folder / f"part-{number:06}.parquet"


def journal_path(folder: Path, number: int) -> Path:
    """Where a journal is."""
    return beside(folder) / f"journal-{number:06}.arrows"


def state_path(folder: Path, number: int) -> Path:
    """Where a state table is."""
    return beside(folder) / f"state-{number:06}.pq"


def part_numbers(folder: Path) -> list[int]:
    """The numbers of the whole files, in order."""
    return sorted(_numbers(folder, "part-*.parquet"))


def journal_numbers(folder: Path) -> list[int]:
    """The numbers of the journals, in order; of one that was just finalized the file may be there too."""
    return sorted(_numbers(beside(folder), "journal-*.arrows"))


def state_numbers(folder: Path) -> list[int]:
    """The numbers of the state tables, in order."""
    return sorted(_numbers(beside(folder), "state-*.pq"))


def next_number(numbers: Collection[int]) -> int:
    """The number of the file behind those with these numbers, but for files that were renamed to a very high one."""
    number = max((one for one in numbers if one <= _HIGHEST_BEGUN), default=0) + 1
    # A renamed file is never overwritten.
    while number in numbers:
        number += 1
    return number


def require_numbers_left(folder: Path, numbers: Collection[int]) -> None:
    """Check that enough numbers are left for the files of a recorder.

    Raises:
        InvalidValue: There are not, as for a file that was renamed.
    """
    highest = max(numbers, default=0)
    if highest > _HIGHEST_BEGUN:
        raise InvalidValue(
            f"{folder} has a file with the number {highest}, and {_HIGHEST_BEGUN} is the highest one that leaves enough"
            " for others; remove or rename it"
        )


def _numbers(folder: Path, pattern: str) -> Iterator[int]:
    for path in folder.glob(pattern):
        if found := _NUMBERED.fullmatch(path.name):
            yield int(found[1])
