"""Functions that decode many payloads at once, and return the values in columns of fixed types.

Arrow decodes plain payloads, and :func:`mirror_sdk.values.decode` decodes all others. A payload is plain if it is a
number without an exponent, text in UTF-8, or a boolean that is 0 or 1. Tests compare the columns with the result of
decoding each value separately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.columns import boolean, nulls, number, text
from mirror_sdk.object_definitions import ResourceType
from mirror_sdk.values import ValueKind, decode, plain_type

Rows: TypeAlias = npt.NDArray[np.int64]

_KINDS = {kind: code for code, kind in enumerate(ValueKind)}
_TYPES = {kind: code for code, kind in enumerate(ResourceType)}
_BY_VALUE = len(_TYPES)
_NO_VALUE = len(_TYPES) + 1
_DECLARED = [*ResourceType, None]
# These numbers are so short that no float overflows or underflows.
_FLOAT = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
_INTEGER = r"^-?[0-9]{1,18}$"
_UNSIGNED = r"^[0-9]{1,18}$"
_SECONDS = r"^[0-9]{1,11}$"
_DIGITS = b"0123456789"
_POINT, _MINUS = b".", b"-"
_FEW_PAIRS = 256
_SHORT = 16
"""The maximum length of a short number.

A number of at most this length matches both patterns, or it has the same value when it is decoded separately.
"""
_LAST_SECOND = 253_402_300_799  # of the year 9999


class TypedColumns(NamedTuple):
    """The decoded values of payloads.

    ``kind`` is the position of the value's kind among the members of ``ValueKind``.
    """

    kind: pa.Array
    num: pa.Array
    text: pa.Array
    bool: pa.Array


class _Payloads(NamedTuple):
    raw: pa.BinaryArray
    content_types: pa.DictionaryArray
    paths: pa.DictionaryArray


def read_payloads(raw: pa.BinaryArray, content_types: pa.DictionaryArray, paths: pa.DictionaryArray) -> TypedColumns:
    """Decode payloads, and return the values as columns of a fixed type.

    Each payload has a content type and a resource path. A null payload means that there is no value.
    """
    if raw.null_count == len(raw):
        return _Columns(len(raw)).finish()
    payloads = _Payloads(raw, content_types, paths)
    columns = _Columns(len(raw))
    if (common := _type_of_all(payloads)) is not None:
        _read_rows(payloads, columns, np.arange(len(raw)), _DECLARED[common])
        return columns.finish()
    types = _types(payloads)
    for code in _occurring(types):
        if code != _NO_VALUE:
            _read_rows(payloads, columns, np.flatnonzero(types == code), _DECLARED[code])
    return columns.finish()


class _Columns:
    """Columns that are being filled. Rows that were not filled have no value."""

    def __init__(self, length: int) -> None:
        self._kind = np.full(length, _KINDS[ValueKind.NONE], np.int8)
        self._num = np.zeros(length)
        self._bool = np.zeros(length, np.bool_)
        self._texts: list[pa.Array] = []
        self._text_at: list[Rows] = []

    def put_numbers(self, rows: Rows, numbers: Any) -> None:
        where = self._where(rows)
        self._kind[where] = _KINDS[ValueKind.NUMBER]
        self._num[where] = numbers

    def put_booleans(self, rows: Rows, booleans: Any) -> None:
        self._kind[rows] = _KINDS[ValueKind.BOOLEAN]
        self._bool[rows] = booleans

    def put_texts(self, rows: Rows, texts: pa.Array, kind: Any) -> None:
        self._kind[rows] = kind
        self._texts.append(texts)
        self._text_at.append(rows)

    def put_opaque(self, rows: Rows) -> None:
        self._kind[rows] = _KINDS[ValueKind.OPAQUE]

    def finish(self) -> TypedColumns:
        return TypedColumns(
            kind=pa.array(self._kind),
            num=self._of_kind(ValueKind.NUMBER, self._num, pa.float64()),
            text=self._all_texts(),
            bool=self._of_kind(ValueKind.BOOLEAN, self._bool, pa.bool_()),
        )

    def _where(self, rows: Rows) -> Rows | slice:
        """Return a slice if all rows are selected, because indexing with an array would be slower."""
        return slice(None) if len(rows) == len(self._kind) else rows

    def _of_kind(self, kind: ValueKind, values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
        is_other = self._kind != _KINDS[kind]
        others = np.count_nonzero(is_other)
        if others == len(values):
            return nulls(len(values), type_)
        return pa.array(values, type_, mask=is_other if others else None)

    def _all_texts(self) -> pa.StringArray:
        if not self._texts:
            return nulls(len(self._kind), pa.string())
        positions = np.full(len(self._kind), -1)
        rows = np.concatenate(self._text_at)
        positions[rows] = np.arange(len(rows))
        return pa.concat_arrays(self._texts).take(pa.array(positions, mask=positions < 0))


def _type_of_all(payloads: _Payloads) -> int | None:
    """Return the common type of all payloads.

    The result is ``None`` unless every combination of content type and path has the same type.
    """
    names, paths = payloads.content_types.dictionary, payloads.paths.dictionary
    if payloads.raw.null_count or payloads.content_types.null_count or len(names) * len(paths) > _FEW_PAIRS:
        return None
    codes = {_type_code(name, path) for name in names.to_pylist() for path in paths.to_pylist()}
    return codes.pop() if len(codes) == 1 else None


def _types(payloads: _Payloads) -> npt.NDArray[np.int8]:
    """Return the type of each payload. It is determined once for each pair of content type and path."""
    names = [*payloads.content_types.dictionary.to_pylist(), None]
    paths = payloads.paths.dictionary.to_pylist()
    of_content = payloads.content_types.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
    pairs = payloads.paths.indices.to_numpy(zero_copy_only=False).astype(np.int64) * len(names) + of_content
    codes = np.zeros(len(paths) * len(names), np.int8)
    for pair in _occurring(pairs):
        codes[pair] = _type_code(names[pair % len(names)], paths[pair // len(names)])
    return np.where(payloads.raw.is_valid().to_numpy(zero_copy_only=False), codes[pairs], np.int8(_NO_VALUE))


def _occurring(codes: npt.NDArray[Any]) -> list[int]:
    """Return the numbers that occur. The numbers are small, so counting is faster than sorting."""
    found: list[int] = np.flatnonzero(np.bincount(codes)).tolist()
    return found


def _type_code(content_type: str | None, path: str) -> int:
    declared = plain_type(content_type, path)
    return _BY_VALUE if declared is None else _TYPES[declared]


def _read_rows(payloads: _Payloads, columns: _Columns, rows: Rows, declared: ResourceType | None) -> None:
    if declared in {ResourceType.OPAQUE, ResourceType.NONE}:
        columns.put_opaque(rows)
        return
    read = _READERS.get(declared) if declared else None
    raw = payloads.raw if len(rows) == len(payloads.raw) else payloads.raw.take(pa.array(rows))
    is_plain = read(columns, rows, raw) if read else np.zeros(len(rows), np.bool_)
    if not is_plain.all():
        _read_by_value(payloads, columns, rows[~is_plain])


def _read_by_value(payloads: _Payloads, columns: _Columns, rows: Rows) -> None:
    chosen = pa.array(rows)
    values = list(map(decode, *(column.take(chosen).to_pylist() for column in payloads)))
    kinds = np.array([_KINDS[value.kind] for value in values], np.int8)
    # This sets the kind of all rows, including those without a string.
    columns.put_texts(rows, pa.array([text(value) for value in values], pa.string()), kinds)
    is_number, is_boolean = kinds == _KINDS[ValueKind.NUMBER], kinds == _KINDS[ValueKind.BOOLEAN]
    columns.put_numbers(rows[is_number], [found for value in values if (found := number(value)) is not None])
    columns.put_booleans(rows[is_boolean], [found for value in values if (found := boolean(value)) is not None])


_IsPlain: TypeAlias = npt.NDArray[np.bool_]
_Reader: TypeAlias = Callable[[_Columns, Rows, pa.BinaryArray], _IsPlain]
"""A function that writes the plain payloads into the columns and returns which payloads are plain."""


def _read_numbers(pattern: str, kind: pa.DataType, signs: bytes) -> _Reader:
    def read(columns: _Columns, rows: Rows, raw: pa.BinaryArray) -> _IsPlain:
        # Matching a pattern would take twice as long.
        if (numbers := _all_short(raw, kind, signs)) is not None:
            columns.put_numbers(rows, numbers)
            return np.ones(len(rows), np.bool_)
        is_plain, digits = _matching(raw, pattern)
        columns.put_numbers(rows[is_plain], digits.cast(kind).to_numpy(zero_copy_only=False))
        return is_plain

    return read


def _all_short(raw: pa.BinaryArray, kind: pa.DataType, signs: bytes) -> npt.NDArray[Any] | None:
    """Return the numbers if all payloads are recognized as short numbers in one step. Otherwise, return ``None``.

    Args:
        raw: The payloads, without nulls.
        kind: The type of the numbers.
        signs: The characters that are allowed besides digits. The cast checks their position, except the position of a
            decimal point at the start or end of a number.
    """
    lengths = pc.min_max(pc.binary_length(raw)).as_py()
    if not 0 < lengths["min"] <= lengths["max"] <= _SHORT:
        return None
    _, offsets, content = raw.buffers()
    # A buffer of a stream may have unused bytes, and its size may not be a multiple of the offset size.
    boundaries = np.frombuffer(offsets, np.int32, raw.offset + len(raw) + 1)[raw.offset :]
    written = content[boundaries[0] : boundaries[-1]].to_pybytes()
    if written.translate(None, _DIGITS + signs):
        return None
    if _POINT in written and not _have_digits_around(np.frombuffer(written, np.uint8), boundaries - boundaries[0]):
        return None
    try:
        texts = pa.Array.from_buffers(pa.string(), len(raw), [None, offsets, content], 0, raw.offset)
        numbers: npt.NDArray[Any] = texts.cast(kind).to_numpy()
    except pa.ArrowInvalid:
        return None
    return numbers


def _have_digits_around(characters: npt.NDArray[np.uint8], boundaries: npt.NDArray[np.int32]) -> bool:
    """Return whether each decimal point is between digits of the same number.

    Signs have smaller character codes than the decimal point.
    """
    is_point, is_digit = characters == ord(_POINT), characters > ord(_POINT)
    is_after_sign = is_point[1:] & ~is_digit[:-1]
    return not (is_after_sign.any() or is_point.take(boundaries[:-1]).any() or is_point.take(boundaries[1:] - 1).any())


def _read_booleans(columns: _Columns, rows: Rows, raw: pa.BinaryArray) -> _IsPlain:
    is_true, is_false = (pc.equal(raw, digit).to_numpy(zero_copy_only=False) for digit in (b"1", b"0"))
    is_plain: _IsPlain = is_true | is_false
    columns.put_booleans(rows[is_plain], is_true[is_plain])
    return is_plain


def _read_texts(columns: _Columns, rows: Rows, raw: pa.BinaryArray) -> _IsPlain:
    try:
        texts = raw.cast(pa.string())
    except pa.ArrowInvalid:
        return np.zeros(len(rows), np.bool_)
    columns.put_texts(rows, texts, _KINDS[ValueKind.TEXT])
    return np.ones(len(rows), np.bool_)


def _read_times(columns: _Columns, rows: Rows, raw: pa.BinaryArray) -> _IsPlain:
    is_plain, digits = _matching(raw, _SECONDS)
    seconds = digits.cast(pa.int64())
    is_in_calendar = pc.less_equal(seconds, _LAST_SECOND)
    is_plain[is_plain] = is_in_calendar.to_numpy(zero_copy_only=False)
    # The cast gives "2026-01-05 08:00:00" and is many times faster than a format.
    instants = seconds.filter(is_in_calendar).cast(pa.timestamp("s")).cast(pa.string())
    timestamps = pc.binary_join_element_wise(pc.binary_replace_slice(instants, 10, 11, "T"), ".000Z", "")
    columns.put_texts(rows[is_plain], timestamps, _KINDS[ValueKind.TIME])
    return is_plain


def _matching(raw: pa.BinaryArray, pattern: str) -> tuple[_IsPlain, pa.StringArray]:
    """Return which payloads match a pattern of ASCII characters, and their strings."""
    matches = pc.match_substring_regex(raw, pattern)
    is_plain: _IsPlain = matches.to_numpy(zero_copy_only=False).copy()
    return is_plain, (raw if is_plain.all() else raw.filter(matches)).cast(pa.string())


_READERS: Mapping[ResourceType, _Reader] = {
    ResourceType.FLOAT: _read_numbers(_FLOAT, pa.float64(), _POINT + _MINUS),
    ResourceType.INTEGER: _read_numbers(_INTEGER, pa.int64(), _MINUS),
    ResourceType.UNSIGNED: _read_numbers(_UNSIGNED, pa.int64(), b""),
    ResourceType.BOOLEAN: _read_booleans,
    ResourceType.STRING: _read_texts,
    ResourceType.CORELINK: _read_texts,
    ResourceType.TIME: _read_times,
}
