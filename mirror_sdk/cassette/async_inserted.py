"""A cassette in an asynchronous client."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

from mirror_sdk._off_loop import off_loop
from mirror_sdk._protocol.async_sender import AsyncSender
from mirror_sdk.cassette.async_transports import AsyncPlayingTransport, AsyncRecordingTransport
from mirror_sdk.cassette.opening import Mode, is_played, open_cassette
from mirror_sdk.cassette.player import Player
from mirror_sdk.cassette.recorder import CassetteRecorder
from mirror_sdk.errors import InvalidValue, MirrorError


class AsyncCassette:
    """A cassette that is in a client as long as an ``async with`` block lasts; ``client.cassettes.use`` makes it.

    Where the block ends in an error nothing is recorded, and a cassette that was there before stays as it was.

    Attributes:
        path: The file.
    """

    def __init__(
        self, path: str | PathLike[str], mode: Mode, sender: AsyncSender, begin_anew: Callable[[], None]
    ) -> None:
        is_played(path, mode)  # refuses what cannot be before anything else is done
        self.path: Path = Path(path).absolute()
        self._mode: Mode = mode
        self._sender = sender
        self._begin_anew = begin_anew
        self._held: CassetteRecorder | Player | None = None

    def __repr__(self) -> str:
        state = {CassetteRecorder: "recording", Player: "playing"}.get(type(self._held), "not in a client")
        return f"<AsyncCassette {self.path}, {state}>"

    @property
    def is_recording(self) -> bool:
        """Whether what the service says is recorded now."""
        return isinstance(self._held, CassetteRecorder)

    @property
    def is_playing(self) -> bool:
        """Whether requests are answered out of the cassette now."""
        return isinstance(self._held, Player)

    @property
    def begun_at(self) -> datetime:
        """When the recording began, also where it is played: what is to be the same each time is reckoned from here.

        Raises:
            InvalidValue: It neither is recorded nor played.
        """
        if self._held is None:
            raise InvalidValue(f"{self.path} is in no client now; ask within its block")
        return self._held.begun_at

    async def __aenter__(self) -> Self:
        self.insert(await off_loop(self.open))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.end(is_kept=kind is None)

    def open(self) -> CassetteRecorder | Player | None:
        """Open the file.

        Raises:
            CassetteDamaged: It is no cassette, or one of another version.
            OSError: It cannot be read.
        """
        return open_cassette(self.path, self._mode, self._sender.base_url, self._sender.api_key)

    def insert(self, held: CassetteRecorder | Player | None) -> None:
        """Have all that the client is asked for from now on recorded or played.

        Raises:
            InvalidValue: There is a cassette in the client.
        """
        if held is None:
            return
        base_path = self._sender.base_path
        transport = (
            AsyncPlayingTransport(held, base_path)
            if isinstance(held, Player)
            else AsyncRecordingTransport(self._sender.carrier, held, base_path)
        )
        try:
            self._sender.insert(transport, held)
        except MirrorError:
            held.close()
            raise
        self._held = held
        self._begin_anew()

    async def end(self, *, is_kept: bool) -> None:
        """Take it out of the client, and put the file into its place where it is kept.

        Raises:
            OSError: The file cannot be written; what was there before is there still.
        """
        held, self._held = self._held, None
        if held is None:
            return
        await self._sender.take_out()
        self._begin_anew()
        if isinstance(held, CassetteRecorder) and is_kept:
            await off_loop(held.finish)
        else:
            held.close()
