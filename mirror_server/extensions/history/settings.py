"""The settings of the history."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from mirror_server.config import SERVE, read_kept_time, setting
from mirror_server.core.errors import CannotServe


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """The settings of the history."""

    keep_history_seconds: float | None = setting(
        None,
        "Keep what happened, every value that devices told and every end of a write, for so long: 30d, 12h."
        " Without it nothing of that is kept.",
        option="--keep-history",
        metavar="TIME",
        callback=read_kept_time,
    )
    history_archive: str | None = setting(
        None,
        "Where days of the history that are over go, into Parquet files: a folder, or a URL that fsspec opens.",
        metavar="FOLDER",
        commands=(*SERVE, "check", "erase"),
    )

    @staticmethod
    def can_keep() -> bool:
        """Return whether the packages of the extra ``history`` are installed."""
        return all(importlib.util.find_spec(name) for name in ("fsspec", "numpy", "pyarrow"))

    def check(self) -> None:
        """Check that a history can be kept as configured.

        Raises:
            CannotServe: There is an archive but no history, an extra is missing, or nothing opens such an archive.
        """
        if self.keep_history_seconds is None:
            if self.history_archive is not None:
                raise CannotServe("--history-archive is for days of a history; add --keep-history 30d, or leave it out")
            return
        try:
            from mirror_server.extensions.history.archive import Archive  # noqa: PLC0415 - needs an extra
            from mirror_server.extensions.history.keeper import Keeper  # noqa: F401, PLC0415
        except ImportError as error:
            cure = "pip install 'device-state-mirror[history]'"
            raise CannotServe(f"cannot keep a history: {error}; {cure}, or leave --keep-history out") from error
        try:
            if self.history_archive is not None:
                Archive(self.history_archive)
        except ValueError as error:
            raise CannotServe(f"{error}; name a folder, or a URL that fsspec opens") from error
