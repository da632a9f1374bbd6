"""What each file of a recording holds, and how it is written: as a whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from mirror_sdk._file_version import file_fault
from mirror_sdk.errors import InvalidValue, RecordingDamaged
from mirror_sdk.frames.files import read_parquet
from mirror_sdk.recording.coverage import Span, merge, read_spans, write_spans
from mirror_sdk.recording.layout import (
    about_path,
    journal_numbers,
    journal_path,
    next_number,
    part_numbers,
    part_path,
    rules_path,
    state_numbers,
    state_path,
    unfinished_path,
)
from mirror_sdk.tables.columns import categories_of
from mirror_sdk.tables.events import EVENTS_RAW_SCHEMA
from mirror_sdk.tables.state import STATE_SCHEMA
from mirror_sdk.wire.subscriptions import PresubscriptionRule

STORED_SCHEMA = pa.schema(
    [
        pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
        for field in EVENTS_RAW_SCHEMA
    ]
)
"""The events table with plain texts in the place of categories, whose sets would differ from file to file."""

_WORDS = {field.name: frozenset(categories_of(field)) for field in EVENTS_RAW_SCHEMA if categories_of(field)}
_MOST_SEALED_WHILE_LISTED = 1000
_INSTANTS = [field.name for field in STORED_SCHEMA if pa.types.is_timestamp(field.type)]
_MILLISECONDS = range(-62_135_596_800_000, 253_402_300_800_000)
"""The milliseconds since 1970 that lie in the years 1 to 9999."""

_ABOUT = b"mirror_recording"
_COVERAGE = b"mirror_coverage"
VERSION: Final = 2


class About(BaseModel):
    """What a recording is of; two with other answers cannot be one.

    A whole file does not tell the ``key``. The ``id`` is for what stands beside a folder to be known as its.
    """

    version: Literal[2]
    id: str | None = None
    server: str
    key: str | None = None
    devices: list[str] | None
    paths: list[str] | None


class _Rules(BaseModel):
    """Rules that were added to those of a key."""

    server: str
    key: str | None
    rules: list[PresubscriptionRule]


class Piece(NamedTuple):
    """What stands under one number: events, and how far they cover the log; whether in a whole file or a journal."""

    events: pa.Table
    spans: list[Span]
    is_finalized: bool


def read_about(folder: Path) -> About | None:
    """What the recording in a folder is of; ``None`` where there is none.

    A folder that was copied without what is beside it is a recording still. What is left beside a folder that was
    removed is none.

    Raises:
        InvalidValue: The folder holds something else or a recording of another version, or beside it is what belongs
            to another one.
    """
    numbers = part_numbers(folder)
    if not numbers:
        return None
    told = _about_of_part(part_path(folder, numbers[0]))
    rest = _read_about(about_path(folder))
    if told is not None and rest is not None and told.id != rest.id:
        raise InvalidValue(
            f"{about_path(folder).parent} belongs to another recording than {folder}; bring the one that was beside it,"
            " or remove it"
        )
    return rest or told


def write_about(folder: Path, about: About) -> None:
    """Say what is recorded, for who goes on with it."""
    unfinished_path(folder).write_text(about.model_dump_json(), encoding="utf-8")
    _finish(folder, about_path(folder))


def read_rules(folder: Path, about: About) -> list[PresubscriptionRule]:
    """The rules that are to be taken away from the key when the recording ends.

    Raises:
        RecordingDamaged: The file is not as it was written.
    """
    path = rules_path(folder)
    try:
        noted = _Rules.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return []
    except ValidationError as exc:
        raise RecordingDamaged(
            f"{path} is damaged; remove it, and yourself remove the rules of a recorder:"
            " client.subscriptions.rules.list() shows them"
        ) from exc
    # What was left beside a folder that was removed may be of another key, whose rules these are not.
    return noted.rules if (noted.server, noted.key) == (about.server, about.key) else []


def write_rules(folder: Path, about: About, rules: Sequence[PresubscriptionRule]) -> None:
    """Keep which rules are to be taken away from the key when the recording ends."""
    if not rules:
        rules_path(folder).unlink(missing_ok=True)
        return
    noted = _Rules(server=about.server, key=about.key, rules=list(rules))
    unfinished_path(folder).write_text(noted.model_dump_json(by_alias=True, exclude_unset=True), encoding="utf-8")
    _finish(folder, rules_path(folder))


def event_numbers(folder: Path) -> list[int]:
    """The numbers of all files with events, finalized or not, in order, and of some that are not there.

    Files that were finalized while the folder was listed may be missing from the list, but not from the folder. So
    small gaps are filled. A large one comes of a file that was renamed, which may have any number.
    """
    found = sorted({*journal_numbers(folder), *part_numbers(folder)})
    between = (range(one + 1, other) for one, other in pairwise(found) if other - one <= _MOST_SEALED_WHILE_LISTED)
    return sorted([*found, *chain.from_iterable(between)])


def read_part(folder: Path, number: int) -> Piece:
    """What a whole file holds.

    Raises:
        FileNotFoundError: There is none.
        RecordingDamaged: It is not as it was written.
    """
    with _undamaged(part_path(folder, number)) as path:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
        metadata = table.schema.metadata or {}
        if _COVERAGE not in metadata:
            raise ValueError("it does not tell what it covers")
        return Piece(_checked(table.replace_schema_metadata(None)), read_spans(metadata[_COVERAGE]), is_finalized=True)


def last_span(folder: Path) -> Span | None:
    """The end of what the whole files cover; ``None`` where they cover nothing.

    Raises:
        RecordingDamaged: The file that tells it is not as it was written.
    """
    for number in reversed(part_numbers(folder)):
        if spans := read_part(folder, number).spans:
            return spans[-1]
    return None


def read_journal(folder: Path, number: int) -> Piece:
    """What a journal holds, as far as it was written to its end.

    Raises:
        FileNotFoundError: There is none.
    """
    tables, spans = [STORED_SCHEMA.empty_table()], []
    with journal_path(folder, number).open("rb") as journal:
        for table, span in _whole_batches(journal):
            tables.append(table)
            spans += span
    return Piece(pa.concat_tables(tables), merge(spans), is_finalized=False)


def read_state(folder: Path, number: int) -> pd.DataFrame:
    """A state table.

    Raises:
        FileNotFoundError: There is none.
        RecordingDamaged: It is not as it was written.
    """
    with _undamaged(state_path(folder, number)) as path:
        state = read_parquet(path)
        about = state.attrs["mirror"]
        pd.Timestamp(about["taken_at"]), int(about["devices"])
        columns: pd.DataFrame = state[STATE_SCHEMA.names]
        columns.attrs = state.attrs
        return columns


def read_numbered(folder: Path, number: int) -> Piece:
    """What stands under a number, also while its journal is being finalized; nothing where a user removed it.

    Raises:
        RecordingDamaged: The whole file is not as it was written.
    """
    # A journal is removed when its whole file is there, so one that is gone after the first look was finalized since.
    for read in (read_part, read_journal, read_part):
        with suppress(FileNotFoundError):
            return read(folder, number)
    return Piece(STORED_SCHEMA.empty_table(), [], is_finalized=True)


def batch_metadata(span: Span | None) -> dict[bytes, bytes]:
    """What stands beside a batch of a journal."""
    return {} if span is None else {_COVERAGE: write_spans([span])}


def finalize(folder: Path, number: int, about: About) -> None:
    """Make a whole file of a journal; cut off at any moment, either of them is there."""
    write_part(folder, number, read_journal(folder, number), about)
    remove_journal(folder, number)


def write_part(folder: Path, number: int, piece: Piece, about: About) -> None:
    """Write a whole file of what a journal held, or write one anew."""
    # The key is no news for whom the events are handed on to.
    metadata = {_ABOUT: about.model_dump_json(exclude={"key"}).encode(), _COVERAGE: write_spans(piece.spans)}
    pq.write_table(
        piece.events.replace_schema_metadata(metadata),
        unfinished_path(folder),
        compression="zstd",
        write_page_checksum=True,
    )
    _finish(folder, part_path(folder, number))


def remove_journal(folder: Path, number: int) -> None:
    """Remove a journal that was finalized."""
    journal_path(folder, number).unlink(missing_ok=True)


def write_state(folder: Path, state: pd.DataFrame) -> None:
    """Keep one more state table."""
    number = next_number(state_numbers(folder))
    state.to_parquet(unfinished_path(folder), write_page_checksum=True)
    _finish(folder, state_path(folder, number))


def clear_beside(folder: Path) -> None:
    """Remove what is left of a recording whose folder was removed."""
    about_path(folder).unlink(missing_ok=True)
    for number in journal_numbers(folder):
        remove_journal(folder, number)
    for number in state_numbers(folder):
        state_path(folder, number).unlink(missing_ok=True)


def _read_about(path: Path) -> About | None:
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _parse_about(path, content)


def _about_of_part(path: Path) -> About | None:
    """What a whole file tells of its recording; nothing, where it is damaged."""
    try:
        content: bytes = pq.read_schema(path).metadata[_ABOUT]
    except (pa.ArrowException, OSError, LookupError, TypeError):
        return None
    return _parse_about(path, content)


def _parse_about(path: Path, content: bytes) -> About:
    try:
        return About.model_validate_json(content)
    except ValidationError as exc:
        raise InvalidValue(
            f"{path} is not of a recording that can be read ({file_fault(content, exc, VERSION)}); give another"
            " folder, or read it with the version of mirror_sdk that wrote it"
        ) from exc


def _finish(folder: Path, target: Path) -> None:
    """Have the unfinished file be seen, for good."""
    unfinished = unfinished_path(folder)
    _sync(unfinished, os.O_RDWR)
    try:
        unfinished.replace(target)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        raise InvalidValue(f"{folder} is on another disk than what is beside it; give a folder inside of it") from exc
    if os.name != "nt":  # which knows no such thing
        _sync(target.parent, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    number = os.open(path, flags)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _whole_batches(journal: BinaryIO) -> Iterator[tuple[pa.Table, list[Span]]]:
    try:
        stream = pa.ipc.open_stream(journal)
        while True:
            batch, metadata = stream.read_next_batch_with_custom_metadata()
            batch.validate(full=True)
            coverage = (metadata or {}).get(_COVERAGE)
            yield _checked(pa.Table.from_batches([batch])), [] if coverage is None else read_spans(coverage)
    except (StopIteration, pa.ArrowException, MemoryError, OSError, ValueError):
        # Cut off while it was written: what is not whole was not recorded, and is read from the log again.
        return


@contextmanager
def _undamaged(path: Path) -> Iterator[Path]:
    """Tell what goes wrong while a file is read as damage of this file; that it cannot be opened is told as it is."""
    try:
        yield path
    except FileNotFoundError:
        raise
    except OSError as exc:
        # Arrow tells of damage without a number.
        if exc.errno is not None:
            raise
        raise _damaged(path, exc) from exc
    except (pa.ArrowException, MemoryError, ValueError, TypeError, LookupError) as exc:
        raise _damaged(path, exc) from exc


def _damaged(path: Path, problem: Exception) -> RecordingDamaged:
    reason = str(problem).partition("\n")[0] or type(problem).__name__
    return RecordingDamaged(
        f"{path} is damaged ({reason}); bring it back from a copy, or remove it: what it held is missing then, and the"
        " audit says so"
    )


def _checked(table: pa.Table) -> pa.Table:
    """The table, if it is one of events.

    Raises:
        ValueError: Its columns are others, or hold words or times that are none.
    """
    if not table.schema.equals(STORED_SCHEMA):
        raise ValueError("its columns are not those of events")
    for name, words in _WORDS.items():
        strange = set(table[name].unique().to_pylist()) - words - {None}
        if strange:
            raise ValueError(f"{strange.pop()!r} is no {name}")
    for name in _INSTANTS:
        ends = pc.min_max(table[name].cast(pa.int64()))
        if any(end is not None and end not in _MILLISECONDS for end in ends.as_py().values()):
            raise ValueError(f"{name} holds what is no time")
    return table
