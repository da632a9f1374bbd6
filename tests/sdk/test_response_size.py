"""Responses use bounded memory, even if they arrive compressed; with both clients. Source: wire.md 0."""

import zlib

import httpx
import pytest
from blocking_client import record_pauses
from changed_responses import Arriving, traced_peak, zipped

from mirror_sdk._protocol.response_body import CHUNK_BYTES, MAX_BYTES, MAX_ERROR_BYTES, Decompressor
from mirror_sdk.errors import ConnectionFailed, MirrorError, ServerError, UnexpectedResponse
from mirror_sdk.wire.snapshot import ARROW

pytestmark = pytest.mark.both_clients

DEVICE = "015f0000592df24b952bc53fa97265c8"
OBJECT = b'{"device_id":"%s","created_at":"2026-01-31T00:00:00Z","resources":[]}' % DEVICE.encode()
_GZIP = 31


@pytest.fixture
def responding(client_of):
    """Create clients of both kinds that receive only this response."""

    def make(status, body, **headers):
        def respond(sent):
            response_headers = {"Content-Type": sent.headers.get("Accept", "application/json"), **headers}
            stream = {"stream": body} if isinstance(body, Arriving) else {"content": body}
            return httpx.Response(status, headers=response_headers, **stream)

        client = client_of(transport=httpx.MockTransport(respond))
        record_pauses(client)
        return client

    return make


GZIP = {"Content-Encoding": "gzip"}
CALLS = {
    "snapshot": lambda client, folder: client.fleet.snapshot(),
    "snapshot_dataset": lambda client, folder: client.fleet.dataset(folder / "fleet"),
    "list_devices": lambda client, folder: list(client.devices.list()),
    "get_device": lambda client, folder: client.get_device(DEVICE),
}


BOMBS = [
    (200, "get_device", UnexpectedResponse, "more than 8000000 bytes after decompression"),
    (302, "snapshot", UnexpectedResponse, "302"),
    (500, "snapshot", ServerError, "500"),
    (500, "list_devices", ServerError, "500"),
]


@pytest.mark.parametrize(("status", "name", "error", "message"), BOMBS)
def test_a_decompression_bomb_needs_little_memory(responding, tmp_path, monkeypatch, status, name, error, message):
    monkeypatch.setattr("mirror_sdk._protocol.response_body.MAX_BYTES", 8_000_000)
    body = Arriving(zipped(b"", 40_000_000), 4_096)
    client = responding(status, body, **GZIP)

    def call():
        with pytest.raises(error, match=message):
            CALLS[name](client, tmp_path)

    assert traced_peak(call) < (24_000_000 if status == 200 else 8_000_000)
    assert body.is_closed
    assert body.pieces_read < len(body.pieces)


def test_a_response_up_to_the_limit_is_read(responding, monkeypatch):
    large = OBJECT + b" " * (20_000 - len(OBJECT))
    zipped = zlib.compress(large, wbits=_GZIP)
    for make, headers in ((lambda: Arriving(large, 7), {}), (lambda: Arriving(zipped), GZIP)):
        monkeypatch.setattr("mirror_sdk._protocol.response_body.MAX_BYTES", 20_000)
        assert responding(200, make(), **headers).get_device(DEVICE).device_id == DEVICE
        monkeypatch.setattr("mirror_sdk._protocol.response_body.MAX_BYTES", 19_999)
        with pytest.raises(UnexpectedResponse, match="19999"):
            responding(200, make(), **headers).get_device(DEVICE)
    error_body = b'{"object":"error","code":500,"type":"x","message":"because","request_id":"r1"}'
    for size, message in ((MAX_ERROR_BYTES, "because"), (MAX_ERROR_BYTES + 1, "no explanation")):
        with pytest.raises(ServerError, match=message):
            responding(500, Arriving(error_body + b" " * (size - len(error_body)))).get_device(DEVICE)


def test_a_response_that_announces_too_many_bytes_is_not_read(responding, tmp_path):
    for name, call in CALLS.items():
        limit = "max_snapshot_bytes=2147483648" if "snapshot" in name else str(MAX_BYTES)
        for length in (3 * 1024**3, 10**30):
            body = Arriving(OBJECT)
            with pytest.raises(UnexpectedResponse, match=limit):
                call(responding(200, body, **{"Content-Length": str(length)}), tmp_path)
            assert (body.pieces_read, body.is_closed) == (0, True)
    body = Arriving(OBJECT)
    with pytest.raises(ServerError):
        responding(500, body, **{"Content-Length": str(MAX_ERROR_BYTES + 1)}).get_device(DEVICE)
    assert (body.pieces_read, body.is_closed) == (0, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("encoding", ["gzip", "GZIP"])
def test_compressed_responses_are_read(responding, encoding):
    content = zlib.compress(OBJECT, wbits=_GZIP)
    for body in (content, Arriving(content), Arriving(content, 5)):
        assert responding(200, body, **{"Content-Encoding": encoding}).get_device(DEVICE).device_id == DEVICE


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip", "x" * 500])
def test_other_content_encodings_are_rejected(responding, encoding):
    for status, kind, message in ((200, UnexpectedResponse, "content encoding"), (500, ServerError, "no explanation")):
        with pytest.raises(kind, match=message):
            responding(status, Arriving(OBJECT), **{"Content-Encoding": encoding}).get_device(DEVICE)


def test_only_supported_encodings_are_requested(client_of):
    encodings = []

    def respond(request):
        encodings.append(request.headers["Accept-Encoding"])
        return httpx.Response(406 if request.headers.get("Accept") == ARROW else 200, content=OBJECT)

    client = client_of(transport=httpx.MockTransport(respond))
    client.get_device(DEVICE)
    with pytest.raises(MirrorError):
        client.fleet.snapshot()
    assert encodings == ["gzip", "identity", "gzip"]


def test_damaged_compression_is_an_error(responding):
    complete = zlib.compress(OBJECT, wbits=_GZIP)
    for body, error, message in (
        (Arriving(complete[:20] + b"\xff" * 40), ConnectionFailed, "DecodingError"),
        (Arriving(complete[:30]), UnexpectedResponse, None),
        (Arriving(complete + complete), UnexpectedResponse, "continues after the end"),
        (Arriving(complete + complete, len(complete)), UnexpectedResponse, "continues after the end"),
    ):
        with pytest.raises(error, match=message):
            responding(200, body, **GZIP).get_device(DEVICE)


@pytest.mark.parametrize("size", [CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES + 7])
def test_a_compressed_response_is_decompressed_in_chunks(size):
    raw = zlib.compress(bytes(size), 9, wbits=_GZIP)
    for raw_bytes in (len(raw), 1000, 3):
        unpacking = Decompressor({"Content-Encoding": "gzip"})
        parts = [raw[begin : begin + raw_bytes] for begin in range(0, len(raw), raw_bytes)]
        pieces = [piece for part in parts for piece in unpacking.decompress(part)]
        assert b"".join(pieces) == bytes(size)
        assert max(map(len, pieces)) <= CHUNK_BYTES
