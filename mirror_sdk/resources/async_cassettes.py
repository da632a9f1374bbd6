"""Cassettes in a client: ``client.cassettes`` of an asynchronous client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_sdk._fork import import_whole
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk.errors import (
    ValueRefused,
)
from mirror_sdk.resources.base import ClientResource

if TYPE_CHECKING:
    from os import PathLike

    from mirror_sdk.cassette import AsyncCassette, Mode


class AsyncCassettes(ClientResource[AsyncClientSession]):
    """Cassettes: ``client.cassettes`` of an asynchronous client. They record a service's responses and replay them."""

    def use(self, path: str | PathLike[str], *, mode: Mode = "once") -> AsyncCassette:
        """Record what the service says within an ``async with`` block, or have it said again without the service.

        Within the block the client is as new: it knows no names and no position in the notification log. Beside it,
        nothing else may be asked of the client. Where the block ends in an error nothing is recorded. See
        :mod:`mirror_sdk.cassette` for what is in a cassette, and what never is.

        Args:
            path: The file, such as ``run.zip``.
            mode: ``once`` plays a cassette that is there and records one that is not, ``replay`` only plays, ``record``
                records anew, and ``none`` does neither.

        Raises:
            CassetteDamaged: It is no cassette, or one of another version.
            FileNotFoundError: It is to be played, and is not there.
            NotRecorded: Within the block: something is asked that was not asked in the recording.
            ValueRefused: There is no such mode, there is a cassette in the client, or it uses a webhook or a websocket.

        >>> for _ in range(2):
        ...     async with client.cassettes.use(folder / "read.zip") as cassette:
        ...         print(cassette.is_playing, await client.read_value(station, "/3303/0/5700"))
        False 21.5
        True 21.5
        """
        import_whole("mirror_sdk.cassette")
        from mirror_sdk.cassette import AsyncCassette

        if self._session.channel != "long polling":
            raise ValueRefused(
                f"a {self._session.channel} brings notifications past a cassette;"
                " call client.notifications.use_long_polling() first"
            )
        return AsyncCassette(path, mode, self._session.sender, self._session.reset)
