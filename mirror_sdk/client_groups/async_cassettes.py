"""Recording and replay of a service's responses: ``client.cassettes`` of an asynchronous client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_sdk._fork import import_locked
from mirror_sdk.client_groups.base import AsyncClientGroup
from mirror_sdk.errors import InvalidValue

if TYPE_CHECKING:
    from os import PathLike

    from mirror_sdk.cassette import AsyncCassette, Mode


class AsyncCassettes(AsyncClientGroup):
    """Methods that record the responses of a service in files and replay them: ``client.cassettes``.

    Such a file is called a cassette. With it, a test or a notebook runs again without the service.
    """

    _expression = "client.cassettes"

    def use(self, path: str | PathLike[str], *, mode: Mode = "once") -> AsyncCassette:
        """Record the service's responses within an ``async with`` block, or replay them without the service.

        At the start of the block, the client forgets cached device names and its position in the notification log. Do
        not use the client for anything else at the same time. If the block ends with an error, nothing is recorded.
        ``mirror help cassettes`` describes the contents of a cassette.

        Args:
            path: The file of the cassette, such as ``run.zip``.
            mode: With ``once``, an existing cassette is replayed and a missing one is recorded. ``replay`` only
                replays, ``record`` always records, and ``none`` does neither.

        Raises:
            CassetteDamaged: The file is not a cassette, or was written in a format that this version does not support.
            FileNotFoundError: The cassette to replay does not exist.
            NotRecorded: Within the block, the program sent a request that is not in the cassette.
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
