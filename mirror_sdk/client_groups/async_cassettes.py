"""Cassettes in a client: ``client.cassettes`` of an asynchronous client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_sdk._fork import import_locked
from mirror_sdk.client_groups.base import AsyncClientGroup
from mirror_sdk.errors import InvalidValue

if TYPE_CHECKING:
    from os import PathLike

    from mirror_sdk.cassette import AsyncCassette, Mode


class AsyncCassettes(AsyncClientGroup):
    """Cassettes: ``client.cassettes`` of an asynchronous client. They record a service's responses and replay them."""

    _expression = "client.cassettes"

    def use(self, path: str | PathLike[str], *, mode: Mode = "once") -> AsyncCassette:
        """Record the service's responses within an ``async with`` block, or replay them without the service.

        Within the block the client starts afresh: it has no cached names and no position in the notification log. Do
        not use the client for anything else at the same time. If the block ends with an error nothing is recorded. See
        ``mirror help cassettes`` for what a cassette contains and what it never contains.

        Args:
            path: The file, such as ``run.zip``.
            mode: ``once`` plays an existing cassette and records a missing cassette, ``replay`` only plays, and
                ``record`` always records. ``none`` neither plays nor records.

        Raises:
            CassetteDamaged: The file is not a cassette, or is a cassette of another version.
            FileNotFoundError: The cassette to play does not exist.
            NotRecorded: Within the block: a request is sent that is not in the recording.
            InvalidValue: The mode does not exist, a cassette is already in use, or the client uses a webhook or a
                websocket.

        >>> for _ in range(2):
        ...     async with client.cassettes.use(folder / "read.zip") as cassette:
        ...         print(cassette.is_playing, await client.read_value(station, "/3303/0/5700"))
        False 21.5
        True 21.5
        """
        import_locked("mirror_sdk.cassette")
        from mirror_sdk.cassette import AsyncCassette

        if self._session.channel != "long polling":
            raise InvalidValue(
                f"a cassette cannot record notifications from a {self._session.channel};"
                " call client.notifications.use_long_polling() first"
            )
        return AsyncCassette(path, mode, self._session.sender, self._session.reset)
