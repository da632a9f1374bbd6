"""A cassette that is used in an asynchronous client."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

from mirror_sdk._protocol.async_sender import AsyncSender
from mirror_sdk._run_in_thread import run_in_thread
from mirror_sdk.cassette.async_transports import AsyncPlayingTransport, AsyncRecordingTransport
from mirror_sdk.cassette.modes import Mode, is_played, open_cassette
from mirror_sdk.cassette.player import Player
from mirror_sdk.cassette.recorder import CassetteRecorder
from mirror_sdk.errors import InvalidValue, MirrorError


class AsyncCassette:
    """A cassette that records or plays the requests of a client within an ``async with`` block.

    ``client.cassettes.use`` creates it. If the block ends with an error, nothing is recorded and an earlier cassette
    remains.

    Attributes:
        path: The path of the cassette file.
    """

    def __init__(self, path: str | PathLike[str], mode: Mode, sender: AsyncSender, reset: Callable[[], None]) -> None:
        is_played(path, mode)  # rejects a wrong mode or path at once
        self.path: Path = Path(path).absolute()
        self._mode: Mode = mode
        self._sender = sender
        self._reset = reset
        self._active: CassetteRecorder | Player | None = None

    def __repr__(self) -> str:
        state = {CassetteRecorder: "recording", Player: "playing"}.get(type(self._active), "not in a client")
        return f"<AsyncCassette {self.path}, {state}>"

    @property
    def is_recording(self) -> bool:
        """Whether responses are currently recorded."""
        return isinstance(self._active, CassetteRecorder)

    @property
    def is_playing(self) -> bool:
        """Whether requests currently get their responses from the cassette."""
        return isinstance(self._active, Player)

    @property
    def started_at(self) -> datetime:
        """The start of the recording.

        Use it as the current time if results must be the same in each run.

        Raises:
            InvalidValue: The cassette is not in use.
        """
        if self._active is None:
            raise InvalidValue(f"the cassette {self.path} is not in use; read started_at inside its with block")
        return self._active.started_at

    async def __aenter__(self) -> Self:
        self.insert(await run_in_thread(self.open))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.end(is_saved=kind is None)

    def open(self) -> CassetteRecorder | Player | None:
        """Open the file.

        Raises:
            CassetteDamaged: The file is not a cassette, or it is a cassette of another format version.
            OSError: The file cannot be read.
        """
        return open_cassette(self.path, self._mode, self._sender.base_url, self._sender.api_key)

    def insert(self, active: CassetteRecorder | Player | None) -> None:
        """Record or play all requests of the client from now on.

        Raises:
            InvalidValue: The client uses another cassette.
        """
        if active is None:
            return
        base_path = self._sender.base_path
        transport = (
            AsyncPlayingTransport(active, base_path)
            if isinstance(active, Player)
            else AsyncRecordingTransport(self._sender.carrier, active, base_path)
        )
        try:
            self._sender.replace_transport(transport, active)
        except MirrorError:
            active.close()
            raise
        self._active = active
        # A cached name or position would save a request in one run but not in another.
        self._reset()

    async def end(self, *, is_saved: bool) -> None:
        """Remove the cassette from the client.

        The file is written if the cassette was recorded and ``is_saved`` is true.

        Raises:
            OSError: The file cannot be written. An earlier file remains unchanged.
        """
        active, self._active = self._active, None
        if active is None:
            return
        # This comes first, because writing the file may fail, and the client can still be used afterwards.
        await self._sender.restore_transport()
        self._reset()
        if isinstance(active, CassetteRecorder) and is_saved:
            await run_in_thread(active.finish)
        else:
            active.close()
