"""Payloads that are decoded by column equal those decoded one by one, and so does the state table of a batch."""

import math

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mirror_sdk.arrow_tables.columns import boolean, number, text
from mirror_sdk.arrow_tables.payload_columns import read_payloads
from mirror_sdk.object_definitions import ResourceType
from mirror_sdk.values import ValueKind, decode

BY_TYPE = {
    ResourceType.FLOAT: "/3303/0/5700",
    ResourceType.INTEGER: "/3/0/9",
    ResourceType.UNSIGNED: "/5/0/13",
    ResourceType.BOOLEAN: "/3311/0/5850",
    ResourceType.TIME: "/3/0/13",
    ResourceType.OBJLINK: "/3/0/22",
    ResourceType.STRING: "/3/0/0",
    ResourceType.OPAQUE: "/5/0/0",
    ResourceType.NONE: "/3/0/4",
    None: "/9999/0/1",
}
CONTENT_TYPES = [None, "text/plain", "text/plain;charset=utf-8", "text/plain;charset=latin-1", "0", "60", "weird"]
CONTENT_TYPES += ["application/octet-stream", "application/json", "application/cbor", "application/vnd.oma.lwm2m+tlv"]
NUMBERS = ["0", "-0", "+1", "007", "21.5", "-3.25", ".5", "5.", "1e5", "1E-5", "1e-400", "1e400", "nan", "inf"]
NUMBERS += ["1_0", "٣", "-", ".", "-.5", "5.-3", "1-2", "253402300799", "253402300800", "-62135596801"]
NUMBERS += ["1700000000", "0x10", "1.2.3", "--1", "1,5", "true", "9007199254740993", "0.1234567890123456"]
NUMBERS += ["123456789012345.123456789012345", "9223372036854775807", " 1", "1 ", "1\n", "\n1", ""]
NUMBERS += ["0." + "0" * 400 + "1", *("9" * length for length in (15, 16, 18, 19, 400))]
MULTIPLE = bytes.fromhex("880708 42000ed8 42011388")
TEXTS = ["hello", "ünï", "3303:0", "99999:0", "\x00", "</3/0>"]
payloads = st.one_of(
    st.none(),
    st.sampled_from([one.encode() for one in NUMBERS + TEXTS]),
    st.binary(max_size=12),
    st.floats().map(lambda one: repr(one).encode()),
    st.integers().map(lambda one: str(one).encode()),
    st.decimals(allow_nan=False, allow_infinity=False, places=6).map(lambda one: str(one).encode()),
)
triples = st.tuples(payloads, st.sampled_from(CONTENT_TYPES), st.sampled_from(list(BY_TYPE.values())))
EVERY_PAIR = [(one.encode(), "text/plain", path) for one in NUMBERS + TEXTS for path in BY_TYPE.values()]


def columns_of(rows):
    raw, content_types, paths = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return read_payloads(
        pa.array(raw, pa.binary()),
        pa.array(content_types, pa.string()).dictionary_encode(),
        pa.array(paths, pa.string()).dictionary_encode(),
    )


def same(one, other):
    """Return whether the values are equal, including the sign of zero; no column has a nan."""
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return one == other


@settings(deadline=None, max_examples=50)
@given(st.lists(triples, max_size=30))
@example(EVERY_PAIR)
@example([(b"\xff", "text/plain", "/3/0/0"), (b"good", "text/plain", "/3/0/0")])
@example([(MULTIPLE, "application/vnd.oma.lwm2m+tlv", "/3/0/7"), (b"3800", "text/plain", "/3/0/7")])
def test_values_parsed_together_equal_those_parsed_alone(rows):
    kinds = list(ValueKind)
    found = zip(*(column.to_pylist() for column in columns_of(rows)), strict=True)
    for row, (kind, num, words, flag) in zip(rows, found, strict=True):
        value = decode(*row)
        assert kinds[kind] is value.kind, row
        assert same(num, number(value)), row
        assert (words, flag) == (text(value), boolean(value)), row


NUMERIC = [BY_TYPE[kind] for kind in (ResourceType.FLOAT, ResourceType.INTEGER, ResourceType.UNSIGNED)]


@pytest.mark.parametrize("path", NUMERIC)
def test_numbers_parsed_together_equal_those_parsed_alone(path):
    plain = (b"20", "text/plain", path)
    for one in NUMBERS:
        row = (one.encode(), "text/plain", path)
        for rows in ([row], [plain, row, plain]):
            columns = columns_of(rows)
            values = [decode(*each) for each in rows]
            assert all(map(same, columns.num.to_pylist(), map(number, values))), rows
            assert columns.text.to_pylist() == list(map(text, values)), rows


def test_buffers_may_be_longer_than_their_content():
    _, offsets, content = pa.array([b"1", b"20"], pa.binary()).buffers()
    longer = [None, *(pa.py_buffer(buffer.to_pybytes() + b"?") for buffer in (offsets, content))]
    raw = pa.Array.from_buffers(pa.binary(), 2, longer)
    raw.validate(full=True)
    content_types, paths = (pa.array([word] * 2).dictionary_encode() for word in ("text/plain", NUMERIC[0]))
    assert read_payloads(raw, content_types, paths).num.to_pylist() == [1, 20]


def test_plain_numbers_are_parsed_in_one_pass(monkeypatch):
    monkeypatch.setattr(
        "mirror_sdk.arrow_tables.payload_columns.decode", lambda *_: pytest.fail("looked at one by one")
    )
    monkeypatch.setattr(
        "mirror_sdk.arrow_tables.payload_columns._matching", lambda *_: pytest.fail("matched one by one")
    )
    for path in NUMERIC:
        assert columns_of([(one, "text/plain", path) for one in (b"1", b"20", b"300")]).num.to_pylist() == [1, 20, 300]
