"""A recorder of exchanges.

At the end, it writes them to a file, either completely or not at all.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from zipfile import ZIP_DEFLATED, ZipFile

import httpx

from mirror_sdk._protocol.client_clock import ClientClock
from mirror_sdk.cassette.cassette_file import MANIFEST, VERSION, Exchange, Ids, Manifest, RequestKey

_RECORDED_HEADERS = frozenset({"content-type", "content-encoding", "date", "etag", "retry-after", "x-request-id"})
_OWN_HEADERS = "mirror-"
_CHUNK_BYTES = 1024 * 1024


class OpenExchange:
    """An exchange that has not ended yet."""

    def __init__(self, key: RequestKey, async_id: str | None, sent_seconds: float) -> None:
        self.key = key
        self.async_id = async_id
        self.sent_seconds = sent_seconds
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.chunks: list[tuple[int, int]] = []
        self.has_ended = False


class CassetteRecorder(ClientClock):
    """A recorder of the responses of the service. Any number of threads can use it at the same time.

    The recorder is also the clock of its client. So the times in a table are the times of recorded exchanges, and they
    are the same when the cassette is played.

    Args:
        path: The path of the cassette file.
        base_url: The address of the service.
        api_key: The access key, which is never written to the file.
        clock: A monotonic clock in seconds.
        now: A function that returns the time of the wall clock.
    """

    def __init__(
        self,
        path: Path,
        base_url: str,
        api_key: str,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: _truncate_to_milliseconds(datetime.now(UTC)),
    ) -> None:
        self.path = path
        self._base_url = base_url
        self._key = api_key
        self._clock = clock
        self._now = now
        self._began = clock()
        self.started_at: datetime = now()
        self._ended_at = self.started_at
        self._ended_seconds = 0.0
        self._lock = threading.Lock()
        self._exchanges: list[tuple[Exchange, OpenExchange]] = []
        self._started_seconds: dict[str, float] = {}
        self._seed = random.SystemRandom().getrandbits(62)
        self._ids = Ids(self._seed)
        # An unnamed file disappears when the program is killed.
        self._bodies = TemporaryFile()  # noqa: SIM115 - open until it is finished
        self._is_over = False

    def new_async_id(self) -> str:
        """Return a new async-id, as :class:`ClientClock` defines it."""
        return self._ids.new()

    def now(self) -> datetime:
        """Return the current time, as :class:`ClientClock` defines it."""
        return self._ended_at

    def seconds(self) -> float:
        """Return the time of the monotonic clock, as :class:`ClientClock` defines it."""
        return self._clock() - self._began

    def started_seconds(self, started: float, async_id: str) -> float:
        """Return the start time of a device request, as :class:`ClientClock` defines it."""
        with self._lock:
            return self._started_seconds.setdefault(async_id, started)

    def received_seconds(self) -> float:
        """Return the time of the last response, as :class:`ClientClock` defines it."""
        return self._ended_seconds

    def waiting_seconds(self) -> float:
        """Return the time of the clock for waits, as :class:`ClientClock` defines it."""
        return self.seconds()

    def start(self, key: RequestKey, async_id: str | None) -> OpenExchange:
        """Start an exchange. Its request is sent immediately afterwards."""
        return OpenExchange(key, async_id, self.seconds())

    def add_head(self, draft: OpenExchange, status: int, headers: httpx.Headers) -> None:
        """Record the status and the headers of the response."""
        draft.status = status
        draft.headers = {name: value for name, value in headers.items() if _is_recorded(name)}

    def add(self, draft: OpenExchange, chunk: bytes) -> None:
        """Record a chunk of the body."""
        with self._lock:
            # A response may still be arriving when the cassette ends.
            if not self._is_over:
                draft.chunks.append((self._bodies.tell(), len(chunk)))
                self._bodies.write(chunk)

    def end(self, draft: OpenExchange, failure: httpx.RequestError | None = None) -> None:
        """End an exchange. Further calls for the same exchange do nothing."""
        with self._lock:
            if draft.has_ended or self._is_over:
                return
            draft.has_ended = True
            self._ended_seconds, self._ended_at = self.seconds(), self._now()
            self._exchanges.append((self._exchange(draft, failure), draft))

    def close(self) -> None:
        """Stop without writing the file. After :meth:`finish`, this does nothing."""
        with self._lock:
            self._is_over = True
            self._bodies.close()

    def finish(self) -> None:
        """Stop recording, and replace the file after the new file is complete and on disk.

        Raises:
            OSError: The file cannot be written. An earlier file remains unchanged.
        """
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        # From now on, no thread adds anything, so writing does not need a lock.
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The temporary file is in the same folder, because replacing a file is atomic only within one file system.
        unfinished = self.path.with_name(f".{self.path.name}-{uuid.uuid4().hex}")
        # The file gets the default permissions of new files, which the user can restrict because it contains personal
        # values.
        with unfinished.open("xb") as file:
            try:
                with ZipFile(file, "w", ZIP_DEFLATED) as archive:
                    self._write(archive)
                file.flush()
                os.fsync(file.fileno())
                unfinished.replace(self.path)
            finally:
                self._bodies.close()
                with suppress(FileNotFoundError):
                    unfinished.unlink()

    def _write(self, archive: ZipFile) -> None:
        for exchange, draft in self._exchanges:
            if exchange.body is not None:
                with archive.open(exchange.body, "w") as body:
                    for chunk in self._without_key(self._body(draft)):
                        body.write(chunk)
        manifest = Manifest(
            version=VERSION,
            base_url=self._base_url,
            started_at=self.started_at,
            seed=self._seed,
            exchanges=[exchange for exchange, _ in self._exchanges],
            started_seconds=self._started_seconds,
        )
        text = manifest.model_dump_json(indent=1, exclude_defaults=False, by_alias=True).encode()
        archive.writestr(MANIFEST, b"".join(self._without_key(iter([text]))))

    def _body(self, draft: OpenExchange) -> Iterator[bytes]:
        for offset, length in draft.chunks:
            self._bodies.seek(offset)
            yield self._bodies.read(length)

    def _exchange(self, draft: OpenExchange, failure: httpx.RequestError | None) -> Exchange:
        return Exchange(
            key=draft.key,
            async_id=draft.async_id,
            sent_seconds=draft.sent_seconds,
            ended_seconds=self._ended_seconds,
            ended_at=self._ended_at,
            status=draft.status,
            headers=draft.headers,
            body=f"bodies/{len(self._exchanges) + 1:06}" if draft.chunks else None,
            failure=None if failure is None else (type(failure).__name__, str(failure)),
        )

    def _without_key(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Replace the access key with asterisks, in case the service returns it."""
        # If the access key is the value of a resource, it is encoded as Base64 in the payload.
        secrets = [self._key.encode(), b64encode(self._key.encode()).rstrip(b"=")]
        # A chunk may end within the key, so the end of a chunk is checked again together with the next chunk.
        overlap = max(map(len, secrets)) - 1
        rest = b""
        for chunk in chunks:
            rest += chunk
            for secret in secrets:
                rest = rest.replace(secret, b"*" * len(secret))
            cut = max(0, len(rest) - overlap)
            yield rest[:cut]
            rest = rest[cut:]
        yield rest


def _truncate_to_milliseconds(moment: datetime) -> datetime:
    """Round a time to the precision of the file, so that it is the same during the replay."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _is_recorded(name: str) -> bool:
    return name.lower() in _RECORDED_HEADERS or name.lower().startswith(_OWN_HEADERS)
