"""Requests that arrive in blocks, put together. Source: RFC 7959, section 2."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mirror_server.extensions.lwm2m.coap.limits import CoapLimits
from mirror_server.extensions.lwm2m.coap.messages import (
    METHODS,
    BlockOption,
    Message,
    Option,
    error_response,
    request_of,
)
from mirror_server.extensions.lwm2m.transport_api import Peer, Request, RequestRejected

_Key = tuple[Peer, int, tuple[tuple[int, bytes], ...]]
_PER_BLOCK = (Option.BLOCK1, Option.BLOCK2, Option.SIZE1)


@dataclass(slots=True)
class _Upload:
    body: bytearray = field(default_factory=bytearray)
    last_block_at: float = 0.0


class Uploads:
    """The transfers that are not complete; ``now`` returns seconds."""

    def __init__(self, limits: CoapLimits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._uploads: OrderedDict[_Key, _Upload] = OrderedDict()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._uploads)

    def request(self, peer: Peer, message: Message) -> Request | Message:
        """Return the whole request of the last block; for other blocks, and errors, the response to send."""
        if message.unknown_critical is not None:
            return error_response("4.02", f"option {message.unknown_critical} is not understood")
        if message.code not in METHODS:
            return error_response("4.05", "GET, POST, PUT and DELETE are understood")
        if len(message.payload) > self._limits.payload_bytes:
            return error_response("4.13", f"more than {self._limits.payload_bytes} bytes")
        block = message.block(Option.BLOCK1)
        try:
            request = request_of(message)
            if block is None:
                return request
            whole = self.add(peer, message, block)
        except RequestRejected as refused:
            response = error_response(refused.code, refused.reason)
        except UnicodeDecodeError:
            response = error_response("4.00", "path or query is no UTF-8")
        except ValueError as error:
            response = error_response("4.00", str(error))
        else:
            if whole is not None:
                return replace(request, payload=whole)
            response = error_response("2.31", "")
        if block is not None:
            response.options.append((Option.BLOCK1, block.encode()))
        return response

    def add(self, peer: Peer, request: Message, block: BlockOption) -> bytes | None:
        """Add a block; return the whole payload with the last one.

        Raises:
            RequestRejected: It does not follow the blocks before, or there is no room for it.
        """
        self._give_up_idle()
        key = _key(peer, request)
        if block.number == 0:
            self._drop(key)
            if (request.number(Option.SIZE1) or 0) > self._limits.payload_bytes:
                raise self._too_large()
            self._uploads[key] = _Upload()
        upload = self._uploads.get(key)
        if upload is None:
            raise RequestRejected("4.08", "the blocks before this one are not here: begin with the first")
        self._append(key, upload, request.payload, block)
        if block.more:
            self._make_room()
            return None
        self._drop(key)
        return bytes(upload.body)

    def _append(self, key: _Key, upload: _Upload, payload: bytes, block: BlockOption) -> None:
        if block.more and len(payload) != block.size:
            self._drop(key)
            raise RequestRejected("4.00", f"a block of {len(payload)} bytes that says it has {block.size}")
        if block.offset + len(payload) == len(upload.body) and upload.body.endswith(payload):
            payload = b""  # the same block again
        elif block.offset != len(upload.body):
            self._drop(key)
            raise RequestRejected("4.08", f"block {block.number} does not follow the one before")
        if len(upload.body) + len(payload) > self._limits.payload_bytes:
            self._drop(key)
            raise self._too_large()
        upload.body += payload
        upload.last_block_at = self._now()
        self.held_bytes += len(payload)
        self._uploads.move_to_end(key)

    def _too_large(self) -> RequestRejected:
        return RequestRejected("4.13", f"more than {self._limits.payload_bytes} bytes")

    def _make_room(self) -> None:
        """Remove the transfers that are idle for the longest, so that active ones complete."""
        while len(self._uploads) > self._limits.uploads or self.held_bytes > self._limits.uploads_bytes:
            self._drop(next(iter(self._uploads)))

    def _give_up_idle(self) -> None:
        before = self._now() - self._limits.upload_idle_seconds
        while self._uploads:
            key, upload = next(iter(self._uploads.items()))
            if upload.last_block_at >= before:
                return
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        upload = self._uploads.pop(key, None)
        if upload is not None:
            self.held_bytes -= len(upload.body)


def _key(peer: Peer, request: Message) -> _Key:
    return peer, request.code, tuple(option for option in request.options if option[0] not in _PER_BLOCK)
