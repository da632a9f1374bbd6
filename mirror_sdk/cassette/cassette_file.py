"""The content of a cassette file.

The file is a zip archive. ``cassette.json`` lists the exchanges, and the other files are the bodies of responses. The
archive contains the keys with which requests are matched. It never contains the bodies of requests, or headers that may
be secret.
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
_CHUNK_BYTES = 64 * 1024


class Ids:
    """A generator of random ids, which are the same for the same seed.

    Any number of threads can use it at the same time.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - it has to be reproducible

    def new(self) -> str:
        """Return the next id."""
        return uuid.UUID(int=self._rng.getrandbits(128), version=4).hex


_Header = Annotated[str, Field(pattern=r"^[\x00-\xff]*$")]
"""A header value in which each character is a byte."""


class _CassetteModel(BaseModel):
    # An unknown member may change the responses, so it is an error.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class RequestKey(_CassetteModel):
    """The key with which a request is matched to its recording.

    ``path`` is relative to the address of the service, and ``query`` is sorted. Parameters that vary between runs are
    omitted: async-ids, the waiting time of a poll, and the compression of a snapshot.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body_sha256: str | None = None

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query)
        return f"{self.method} {self.path}{'?' if query else ''}{query}"


class Exchange(_CassetteModel):
    """A request and its response.

    All times in seconds are relative to the start of the recording.

    Attributes:
        key: The key of the request. Its name in the file is ``asked``.
        async_id: The async-id of a device request.
        sent_seconds: The time at which the request was sent.
        ended_seconds: The time at which the response was complete, or the request failed. Its name in the file is
            ``answered_seconds``.
        ended_at: The same time by the wall clock. Its name in the file is ``answered_at``.
        status: The HTTP status of the response; ``None`` if there was no response.
        headers: The headers of the response.
        body: The name of the file with the body.
        failure: The httpx error with which the request ended, and the error message.
    """

    key: RequestKey = Field(alias="asked")
    async_id: str | None = None
    sent_seconds: float
    ended_seconds: float = Field(alias="answered_seconds")
    ended_at: Timestamp = Field(alias="answered_at")
    status: int | None = None
    headers: dict[_Header, _Header] = {}
    body: str | None = None
    failure: tuple[str, str] | None = None


class Manifest(_CassetteModel):
    """The content of a cassette, except for the bodies.

    Attributes:
        base_url: The address of the service.
        started_at: The time at which the recording started. Its name in the file is ``begun_at``.
        exchanges: The exchanges in the order in which they ended.
        seed: The seed of the async-ids, which makes them the same in each run.
        started_seconds: The times at which device requests started, by their async-ids. Its name in the file is
            ``begun_seconds``.
    """

    object: Literal["mirror-cassette"] = "mirror-cassette"
    version: Literal[1]
    base_url: str
    started_at: Timestamp = Field(alias="begun_at")
    seed: int
    exchanges: list[Exchange]
    started_seconds: dict[str, float] = Field(alias="begun_seconds")


class CassetteFile:
    """A cassette file that is open for reading. Any number of threads can use it at the same time.

    Raises:
        CassetteDamaged: The file is not a cassette, or it is a cassette of another format version.
        OSError: The file cannot be read.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path: Path = Path(path)
        try:
            self._zip = ZipFile(self.path)
            with self._zip.open(MANIFEST) as file:
                # A small file may decompress to any size.
                content = file.read(_MOST_MANIFEST_BYTES)
        # This includes the errors of zipfile for a missing manifest, an unknown compression and an encrypted file.
        except (BadZipFile, KeyError, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
            raise self.damaged(str(error)) from error
        self.manifest: Manifest = self._read_manifest(content)
        names = set(self._zip.namelist())
        missing = next((one.body for one in self.manifest.exchanges if one.body and one.body not in names), None)
        if missing is not None:
            raise self.damaged(f"{missing} is missing")

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the chunks of a body.

        Raises:
            CassetteDamaged: The body is damaged.
        """
        try:
            with self._zip.open(name) as file:
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk
        except (BadZipFile, EOFError, OSError, zlib.error) as error:
            raise self.damaged(f"{name}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def damaged(self, fault: str) -> CassetteDamaged:
        """Return the error to raise for a file with this fault."""
        return CassetteDamaged(
            f"{self.path} is not a cassette that can be played ({fault}); record it again with"
            f" client.cassettes.use({str(self.path)!r}, mode='record')"
        )

    def _read_manifest(self, content: bytes) -> Manifest:
        try:
            return Manifest.model_validate_json(content)
        except ValidationError as error:
            raise self.damaged(f"{MANIFEST}: {file_fault(content, error, VERSION)}") from error
