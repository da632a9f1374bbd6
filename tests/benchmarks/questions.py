"""Questions about time, asked of the history of a fleet, against reading that history from a file.

The history has ``--fleet`` devices of ``--resources`` resources with 50 values each over a day: 10 million rows. It
stands in a Parquet file as ``to_parquet`` writes it. Each question is asked of the frame in memory, on one core, and so
is the file read: who has the history has to have read it once. What pandas needs for the mean of the values of each
hour, which is not weighted by time and knows of no gaps, is told beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from machine import on_cores
from measuring import Figure, alternate, at_most, ratio
from run_settings import Run

from mirror_sdk.frames import HISTORY_SCHEMA, mirror, read_parquet
from mirror_sdk.frames.columns import to_frame
from mirror_sdk.wire.history import HAPPENINGS

NAME = "questions"
_VALUES = 50
_BEGIN = pd.Timestamp("2026-01-01T00:00:00Z")
_DAY = 86_400_000
_FILE = "the same rows read from Parquet"
_GROUPBY = "groupby of pandas by the hour"
_QUESTIONS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "mean over time by the hour": lambda frame: mirror(frame).resample("1h"),
    "the same, silences over 10 min": lambda frame: mirror(frame).resample("1h", silence_limit="10min"),
    "last, min, max, count by the hour": lambda frame: mirror(frame).resample("1h", ["last", "min", "max", "count"]),
    "how long above a threshold": lambda frame: mirror(frame).durations("*", above=22),
    "rates by the hour": lambda frame: mirror(frame).rates("*", bin="1h"),
    "wide by the hour": lambda frame: mirror(frame).align(on="1h"),
    "half a day beside another": lambda frame: mirror(frame).compare(_BEGIN, _BEGIN + timedelta(hours=12), "12h"),
    "availability, silences over 10 min": lambda frame: mirror(frame).availability(silence_limit="10min"),
    "late values": lambda frame: mirror(frame).late("1min"),
    "unchanged for 2 h": lambda frame: mirror(frame).unchanged("2h"),
}


def measure(run: Run) -> Iterator[Figure]:
    with on_cores(run.cores.one):
        frame = _history(run.scale.fleet, run.scale.resources)
        file = run.folder / "history.parquet"
        frame.to_parquet(file)
        sides: dict[str, Callable[[], float]] = {_FILE: partial(_seconds, read_parquet, file)}
        sides |= {name: partial(_seconds, ask, frame) for name, ask in _QUESTIONS.items()}
        sides[_GROUPBY] = partial(_seconds, _hourly_means, frame)
        samples = alternate(sides, run.scale.rounds)
    for name in (*_QUESTIONS, _GROUPBY):
        goal = at_most(4) if name in _QUESTIONS else None
        yield ratio(NAME, f"{name}, {len(frame):,} rows", samples, name, _FILE, "s", goal)


def _seconds(ask: Callable[[pd.DataFrame | Path], object], of: pd.DataFrame | Path) -> float:
    began = time.perf_counter()
    ask(of)
    return time.perf_counter() - began


def _hourly_means(frame: pd.DataFrame) -> pd.Series:
    hours = frame.assign(bin=frame["changed_at"].dt.floor("1h"))
    return hours.groupby(["device_id", "path", "bin"], observed=True)["value_num"].mean()


def _history(devices: int, resources: int) -> pd.DataFrame:
    """A history as the service tells it: sorted by device, path and time."""
    count = devices * resources * _VALUES
    random = np.random.default_rng(1)
    begin = int(_BEGIN.timestamp() * 1000)
    at = begin + np.sort(random.integers(0, _DAY, (devices * resources, _VALUES)), axis=1).ravel()
    device = np.repeat(np.arange(devices, dtype=np.int32), resources * _VALUES)
    path = np.tile(np.repeat(np.arange(resources, dtype=np.int32), _VALUES), devices)
    told = {
        "device_id": pa.DictionaryArray.from_arrays(device, [f"device-{number:06}" for number in range(devices)]),
        "path": pa.DictionaryArray.from_arrays(path, [f"/3303/{number}/5700" for number in range(resources)]),
        "changed_at": pa.array(at).view(HISTORY_SCHEMA.field("changed_at").type),
        "received_at": pa.array(at + 200).view(HISTORY_SCHEMA.field("received_at").type),
        "what": pa.DictionaryArray.from_arrays(np.full(count, HAPPENINGS.index("reported"), np.int8), list(HAPPENINGS)),
        "value_num": pa.array(random.normal(20, 3, count).round(1)),
        "revision": pa.array(np.arange(count)),
    }
    columns = [told.get(field.name, pa.nulls(count, field.type)) for field in HISTORY_SCHEMA]
    end = (_BEGIN + timedelta(days=1)).isoformat()
    about = {"taken_at": end, "begin": _BEGIN.isoformat(), "end": end, "oldest_at": _BEGIN.isoformat()}
    return to_frame(pa.Table.from_arrays(columns, names=HISTORY_SCHEMA.names), about)
