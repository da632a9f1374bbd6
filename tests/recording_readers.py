"""What other programs see of a recording, and what a recorder leaves that is killed at some step of its writing."""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask.dataframe as dd
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from mirror_sdk.recording.coverage import Span, write_spans
from mirror_sdk.recording.files import Piece, read_journal, read_part
from mirror_sdk.recording.layout import (
    about_path,
    beside,
    journal_numbers,
    older_about_path,
    older_journal_path,
    older_lock_path,
    older_state_path,
    part_numbers,
    part_path,
    state_numbers,
    state_path,
)


def _duck(pattern: str) -> pd.DataFrame:
    return duckdb.sql(f"select * from read_parquet('{pattern}')").to_arrow_table().to_pandas()


def _dask(folder: Path) -> pd.DataFrame:
    with warnings.catch_warnings():
        # Of Dask's own use of pandas.
        warnings.filterwarnings("ignore", "The inplace keyword", DeprecationWarning)
        return dd.read_parquet(folder).compute(scheduler="sync")


READERS: dict[str, Callable[[Path], Any]] = {
    "pandas": pd.read_parquet,
    "pyarrow table": lambda folder: pq.read_table(folder).to_pandas(),
    "pyarrow dataset": lambda folder: ds.dataset(folder).to_table().to_pandas(),
    "DuckDB *": lambda folder: _duck(f"{folder}/*.parquet"),
    "DuckDB **": lambda folder: _duck(f"{folder}/**/*.parquet"),
    "Polars": pl.read_parquet,
    "Polars scan": lambda folder: pl.scan_parquet(folder).collect(),
    "Polars *": lambda folder: pl.read_parquet(folder / "*.parquet"),
    "Dask": _dask,
}


def seen(folder: Path) -> dict[str, tuple[list[int], list[str]]]:
    """The numbers of the entries and the columns, as each reader sees them."""
    frames = {name: read(folder) for name, read in READERS.items()}
    return {name: (sorted(frame["seq"]), list(frame.columns)) for name, frame in frames.items()}


class Killed(BaseException):
    """The process is no more."""


@contextmanager
def killed_at(step: int) -> Iterator[None]:
    """Ends what writes files at its step of that number, before the step or, where a file is written, amid it."""
    steps = 0

    def is_last() -> bool:
        nonlocal steps
        steps += 1
        return steps >= step

    def before(do: Callable[..., Any]) -> Callable[..., Any]:
        def killed(*arguments: Any, **options: Any) -> Any:
            if is_last():
                raise Killed
            return do(*arguments, **options)

        return killed

    def amid(do: Callable[..., Any]) -> Callable[..., Any]:
        def killed(*arguments: Any, **options: Any) -> Any:
            # A dead process writes nothing more.
            if steps >= step:
                raise Killed
            result = do(*arguments, **options)
            if is_last():
                for written in (one for one in arguments if isinstance(one, Path)):
                    os.truncate(written, written.stat().st_size // 2)
                raise Killed
            return result

        return killed

    with (
        patch("os.replace", before(os.replace)),
        patch("os.unlink", before(os.unlink)),
        patch("os.fsync", before(os.fsync)),
        patch("os.mkdir", before(os.mkdir)),
        patch("pyarrow.parquet.write_table", amid(pq.write_table)),
        patch("pathlib.Path.write_text", amid(Path.write_text)),
    ):
        yield


def make_older(folder: Path, here: datetime) -> None:
    """Give a recording the layout of before: all in the folder, fewer columns, and times of the client's clock."""
    for number in part_numbers(folder):
        table, spans = _of_before(read_part(folder, number), here)
        table = table.replace_schema_metadata({b"mirror_spans": write_spans(spans)})
        pq.write_table(table, part_path(folder, number), write_page_checksum=True)
    for number in journal_numbers(folder):
        table, spans = _of_before(read_journal(folder, number), here)
        with pa.ipc.new_stream(older_journal_path(folder, number), table.schema) as journal:
            for batch in table.to_batches():
                journal.write_batch(batch, custom_metadata={b"span": write_spans(spans)})
    for number in state_numbers(folder):
        state_path(folder, number).rename(older_state_path(folder, number))
    about_path(folder).rename(older_about_path(folder))
    older_lock_path(folder).touch()
    shutil.rmtree(beside(folder))


def _of_before(piece: Piece, here: datetime) -> tuple[pa.Table, list[Span]]:
    return piece.events.drop_columns(["endpoint_name", "unit"]), [
        span._replace(from_at=here, until_at=here) for span in piece.spans
    ]
