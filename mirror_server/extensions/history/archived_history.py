"""Maintenance commands for the part of the history that is in segments and in the archive.

This module can be imported without the packages of the extra ``history``, because most databases have no such part.
"""

from __future__ import annotations

import threading
import time

import click

from mirror_server.core.errors import CannotServe
from mirror_server.extensions.history.store import history, segments
from mirror_server.hooks import Erasure
from mirror_server.store.backend import Violation
from mirror_server.store.database import Database
from mirror_server.store.session import Session

_SERVER_SECONDS = 20
"""The time to wait for a running server, which usually deletes erased rows within a second."""
_RETRY_SECONDS = 0.1

_LEFT_BY_SERVER = (
    "the archived rows of this device are no longer returned, but they have not been deleted within"
    f" {_SERVER_SECONDS} seconds. If no server is running, start one with --keep-history. Otherwise look in its log for"
    " files that it cannot read. Then run this command again until it reports that nothing is stored"
)
_UNREADABLE = (
    "the archived rows of this device are no longer returned, and those in readable files have been deleted, but one"
    " file or segment cannot be read ({reason}). Find its name with 'mirror-server check', and restore it from a"
    " backup. Then run this command again until it reports that nothing is stored"
)


class ArchivedHistory:
    """The segments of a database, and the files of its archive.

    Args:
        database: The database of the history.
        location: The value of ``--history-archive``, or ``None`` if there is no archive.

    Raises:
        CannotServe: There are segments or files, but a package that reads them is not installed.
        ClickException: There are files, but no location or no installed package that can open it.
    """

    def __init__(self, database: Database, location: str | None) -> None:
        self._database = database
        with database.read() as session:
            files = [*(file.file_name for file in segments.files(session)), *segments.replaced_files(session)]
            self._is_empty = not files and not any(
                segments.blocks(session, kind) for kind in (segments.ROWS, segments.STATE)
            )
            self._compacted_revision = history.state(session).compacted_revision
        if self._is_empty:
            return
        if files and location is None:
            raise click.ClickException(
                f"the history of this database has files in an archive ({len(files):,}); pass its location with"
                " --history-archive"
            )
        try:
            from mirror_server.extensions.history import consistency, eraser  # noqa: PLC0415 - needs an extra
            from mirror_server.extensions.history.archive import Archive  # noqa: PLC0415
        except ImportError as error:
            cure = "pip install 'device-state-mirror[history]'"
            raise CannotServe(f"cannot read the history of this database: {error}; {cure}") from error
        self._consistency, self._eraser = consistency, eraser
        try:
            self._archive = None if location is None else Archive(location)
        except ValueError as error:
            raise click.ClickException(str(error)) from error

    def erasure(self, device_id: str) -> Erasure:
        """Return the operation that erases a device from the segments and files."""
        # The rows are counted first, because afterwards they are no longer returned. Rows that are compacted in between
        # would not be counted at all.
        count = 0 if self._is_empty else self._eraser.count_rows(self._database, self._archive, device_id)
        return Erasure({"history": count}, self._is_current, self._delete_erased)

    def _is_current(self, session: Session) -> bool:
        return history.state(session).compacted_revision == self._compacted_revision

    def violations(self) -> list[Violation]:
        """Read all segments and files, and return how they differ from the database."""
        return [] if self._is_empty else list(self._consistency.violations(self._database, self._archive))

    def _delete_erased(self, is_alone: bool) -> str | None:
        """Delete the erased rows, or wait until the server has deleted them. Return the reason if that failed.

        A running server with a history may be rewriting the same segments. So only that server may delete the rows.
        """
        with self._database.read() as session:
            erased = segments.erasures(session)
            is_enabled = history.state(session).is_enabled
        if is_enabled and not is_alone:
            return None if self._is_deleted_by_server() else _LEFT_BY_SERVER
        if self._is_empty:
            self._database.write(lambda session: segments.forget_erasures(session, erased.items()))
            return None
        return self._delete()

    def _delete(self) -> str | None:
        import pyarrow as pa  # noqa: PLC0415 - needs an extra, and takes long to import

        try:
            self._eraser.HistoryEraser(self._database, self._archive).erase()
        except (OSError, pa.ArrowException) as error:
            return _UNREADABLE.format(reason=str(error).partition("\n")[0])
        return None

    def _is_deleted_by_server(self) -> bool:
        end_at = time.monotonic() + _SERVER_SECONDS
        while time.monotonic() < end_at:
            if not self._database.query(segments.erasures):
                return True
            threading.Event().wait(_RETRY_SECONDS)
        return False
