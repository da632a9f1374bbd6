"""What stands in a cassette: a zip with ``cassette.json``, which lists the exchanges, and their answers in ``bodies``.

Of a request there is what tells it from others, and never a header that could hold a secret, nor its body.
"""

from __future__ import annotations

import random
import uuid
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal
from zipfile import BadZipFile, ZipFile

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mirror_sdk._file_version import file_fault
from mirror_sdk.errors import CassetteDamaged
from mirror_sdk.wire.model import Timestamp

MANIFEST = "cassette.json"
VERSION: Final = 1
_MOST_MANIFEST_BYTES = 256 * 1024 * 1024
_PIECE_BYTES = 64 * 1024


class Ids:
    """Ids that are another each time, and the same ones from the same seed; any number of threads may take some."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - to be the same again is what it is for

    def new(self) -> str:
        """The next one."""
        return uuid.UUID(int=self._chance.getrandbits(128), version=4).hex


_Header = Annotated[str, Field(pattern=r"^[\x00-\xff]*$")]
"""Of a header, each character is a byte."""


class _CassettePart(BaseModel):
    # What this version does not know may mean that something else is to be answered.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


class RequestKey(_CassettePart):
    """What tells a request from others.

    ``path`` is that below the address of the service, ``query`` is sorted. Left out is what a client chooses anew each
    time: async-ids, for how long a poll is held, how a snapshot is compressed on the way.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body_sha256: str | None = None

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query)
        return f"{self.method} {self.path}{'?' if query else ''}{query}"


class Exchange(_CassettePart):
    """A request and what came of it; all seconds are since the recording began.

    Attributes:
        asked: What was asked.
        async_id: Under which async-id, of a device request.
        sent_seconds: When it was sent.
        answered_seconds: When all of the answer had come, or the failure.
        answered_at: The same by the clock on the wall.
        status: HTTP status of the answer; ``None`` where none came.
        headers: Headers of the answer.
        body: The name of the file with the body.
        failure: The error of httpx that it ended in, and its words.
    """

    asked: RequestKey
    async_id: str | None = None
    sent_seconds: float
    answered_seconds: float
    answered_at: Timestamp
    status: int | None = None
    headers: dict[_Header, _Header] = {}
    body: str | None = None
    failure: tuple[str, str] | None = None


class Manifest(_CassettePart):
    """All of a cassette but the bodies.

    Attributes:
        base_url: Address of the service.
        begun_at: When the recording began.
        exchanges: In the order in which they ended.
        seed: What async-ids are made from, so that those that are shown are the same again.
        begun_seconds: When device requests began, by their async-ids.
    """

    object: Literal["mirror-cassette"] = "mirror-cassette"
    version: Literal[1]
    base_url: str
    begun_at: Timestamp
    seed: int
    exchanges: list[Exchange]
    begun_seconds: dict[str, float]


class CassetteFile:
    """A cassette to read from; any number of threads may.

    Raises:
        CassetteDamaged: It is no cassette, or one of another version.
        OSError: The file cannot be read.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path: Path = Path(path)
        try:
            self._zip = ZipFile(self.path)
            with self._zip.open(MANIFEST) as file:
                told = file.read(_MOST_MANIFEST_BYTES)
        except (BadZipFile, KeyError, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
            raise self.damaged(str(error)) from error
        self.manifest: Manifest = self._read_manifest(told)
        names = set(self._zip.namelist())
        lacking = next((one.body for one in self.manifest.exchanges if one.body and one.body not in names), None)
        if lacking is not None:
            raise self.damaged(f"{lacking} is missing")

    def pieces(self, name: str) -> Iterator[bytes]:
        """A body, piece by piece.

        Raises:
            CassetteDamaged: It is not as it was written.
        """
        try:
            with self._zip.open(name) as file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece
        except (BadZipFile, EOFError, OSError, zlib.error) as error:
            raise self.damaged(f"{name}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def damaged(self, fault: str) -> CassetteDamaged:
        """The error for what is not as it should be."""
        return CassetteDamaged(
            f"{self.path} is no cassette that can be played ({fault}); record it anew with"
            f" client.cassettes.use({str(self.path)!r}, mode='record')"
        )

    def _read_manifest(self, told: bytes) -> Manifest:
        try:
            return Manifest.model_validate_json(told)
        except ValidationError as error:
            raise self.damaged(f"{MANIFEST}: {file_fault(told, error, VERSION)}") from error
