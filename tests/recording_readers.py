"""Readers of recordings by other programs, and a recorder that is killed while it writes."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask.dataframe as dd
import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq


def _duck(pattern: str) -> pd.DataFrame:
    return duckdb.sql(f"select * from read_parquet('{pattern}')").to_arrow_table().to_pandas()


def _dask(folder: Path) -> pd.DataFrame:
    with warnings.catch_warnings():
        # This warning is about Dask's own use of pandas.
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
    """Return the numbers of the entries and the columns, as each reader returns them."""
    frames = {name: read(folder) for name, read in READERS.items()}
    return {name: (sorted(frame["seq"]), list(frame.columns)) for name, frame in frames.items()}


class Killed(BaseException):
    """The simulated death of the process."""


@contextmanager
def killed_at(step: int) -> Iterator[None]:
    """Raise :class:`Killed` at this step of writing files: before the step, or in the middle of writing a file."""
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

    def in_the_middle_of(do: Callable[..., Any]) -> Callable[..., Any]:
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
        patch("pyarrow.parquet.write_table", in_the_middle_of(pq.write_table)),
        patch("pathlib.Path.write_text", in_the_middle_of(Path.write_text)),
    ):
        yield
