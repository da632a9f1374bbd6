"""The settings of the history."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.config import SERVE, setting
from mirror_server.core.errors import CannotServe
from mirror_server.extensions.options import read_retention


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """The retention period of the history, and the location of its archive."""

    keep_history_seconds: float | None = setting(
        None,
        "Keep a history of reported values and completed writes for this long, for example 30d or 12h. Off by default.",
        option="--keep-history",
        metavar="TIME",
        callback=read_retention,
    )
    history_archive: str | None = setting(
        None,
        "Folder, or URL that fsspec opens, in which the server archives completed days of the history as Parquet files."
        " Pass the same one to 'run', 'check' and 'erase'.",
        metavar="FOLDER",
        commands=(*SERVE, "check", "erase"),
    )

    def check(self) -> None:
        """Check that the history can be stored with these settings.

        Raises:
            CannotServe: An archive is set but no history, or no installed package can open the archive.
        """
        if self.history_archive is None:
            return
        if self.keep_history_seconds is None:
            raise CannotServe("--history-archive needs a history; add --keep-history 30d, or remove --history-archive")
        from mirror_server.extensions.history.archive import Archive  # noqa: PLC0415 - needs an extra

        try:
            Archive(self.history_archive)
        except ValueError as error:
            raise CannotServe(f"{error}; name a folder, or a URL that fsspec opens") from error
