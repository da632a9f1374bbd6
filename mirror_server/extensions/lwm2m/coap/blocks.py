"""The reassembly of requests that arrive in several blocks. Source: RFC 7959, section 2."""

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
# These options differ between the blocks of a request. All other options identify the request. Source: RFC 7959, 2.5.
_PER_BLOCK = (Option.BLOCK1, Option.BLOCK2, Option.SIZE1)


@dataclass(slots=True)
class _Upload:
    body: bytearray = field(default_factory=bytearray)
    last_block_at: float = 0.0


class Uploads:
    """The incomplete block-wise transfers. ``now`` returns the current time of a clock in seconds."""

    def __init__(self, limits: CoapLimits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._uploads: OrderedDict[_Key, _Upload] = OrderedDict()
        self.buffered_bytes = 0

    def __len__(self) -> int:
        return len(self._uploads)

    def request(self, peer: Peer, message: Message) -> Request | Message:
        """Return the complete request after its last block. For other blocks and errors, return a response to send."""
        if message.unknown_critical is not None:
            return error_response("4.02", f"option {message.unknown_critical} is not supported")
        if message.code not in METHODS:
            return error_response("4.05", "supported methods are GET, POST, PUT and DELETE")
        if len(message.payload) > self._limits.payload_bytes:
            return error_response("4.13", f"more than {self._limits.payload_bytes} bytes")
        block = message.block(Option.BLOCK1)
        try:
            request = request_of(message)
            if block is None:
                return request
            payload = self.add(peer, message, block)
        except RequestRejected as rejected:
            response = error_response(rejected.code, rejected.reason)
        except UnicodeDecodeError:
            response = error_response("4.00", "path or query is not UTF-8")
        except ValueError as error:
            response = error_response("4.00", str(error))
        else:
            if payload is not None:
                return replace(request, payload=payload)
            response = error_response("2.31", "")
        if block is not None:
            response.options.append((Option.BLOCK1, block.encode()))
        return response

    def add(self, peer: Peer, request: Message, block: BlockOption) -> bytes | None:
        """Add a block. Return the complete payload after the last block, and ``None`` before that.

        Raises:
            RequestRejected: The block does not follow the previous block, or the payload is too large.
        """
        self._drop_idle()
        key = _key(peer, request)
        if block.number == 0:
            self._drop(key)
            if (request.number(Option.SIZE1) or 0) > self._limits.payload_bytes:
                raise self._too_large()
            self._uploads[key] = _Upload()
        upload = self._uploads.get(key)
        if upload is None:
            raise RequestRejected("4.08", "the previous blocks are missing; start with the first")
        self._append(key, upload, request.payload, block)
        if block.more:
            self._evict_idle()
            return None
        self._drop(key)
        return bytes(upload.body)

    def _append(self, key: _Key, upload: _Upload, payload: bytes, block: BlockOption) -> None:
        if block.more and len(payload) != block.size:
            self._drop(key)
            raise RequestRejected("4.00", f"the block has {len(payload)} bytes, but declares {block.size}")
        if block.offset + len(payload) == len(upload.body) and upload.body.endswith(payload):
            payload = b""  # a duplicate of the previous block
        elif block.offset != len(upload.body):
            self._drop(key)
            raise RequestRejected("4.08", f"block {block.number} does not follow the previous one")
        if len(upload.body) + len(payload) > self._limits.payload_bytes:
            self._drop(key)
            raise self._too_large()
        upload.body += payload
        upload.last_block_at = self._now()
        self.buffered_bytes += len(payload)
        self._uploads.move_to_end(key)

    def _too_large(self) -> RequestRejected:
        return RequestRejected("4.13", f"more than {self._limits.payload_bytes} bytes")

    def _evict_idle(self) -> None:
        """Drop the transfers that have been idle for the longest time, so that active transfers can complete."""
        while len(self._uploads) > self._limits.uploads or self.buffered_bytes > self._limits.uploads_bytes:
            self._drop(next(iter(self._uploads)))

    def _drop_idle(self) -> None:
        before = self._now() - self._limits.upload_idle_seconds
        while self._uploads:
            key, upload = next(iter(self._uploads.items()))
            if upload.last_block_at >= before:
                return
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        upload = self._uploads.pop(key, None)
        if upload is not None:
            self.buffered_bytes -= len(upload.body)


def _key(peer: Peer, request: Message) -> _Key:
    return peer, request.code, tuple(option for option in request.options if option[0] not in _PER_BLOCK)
