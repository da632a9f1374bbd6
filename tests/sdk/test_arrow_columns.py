"""Conversion of Arrow columns: missing values, categories, numbers without a loss."""

import pyarrow as pa
import pytest

from mirror_sdk.arrow_tables.columns import at, occurring, words_at


@pytest.mark.parametrize(
    ("indices", "words", "expected"),
    [
        ([0, 1, 2, 0, 2], ["a", "b", "c"], ["a", "b", "c"]),
        ([0, 1, 0, 2], ["a", "b", "c"], ["a", "b", "c"]),
        ([2, 0, 1], ["a", "b", "c"], ["c", "a", "b"]),
        ([0, 2, 0], ["a", "b", "c"], ["a", "c"]),
        ([None, 1, None], ["a", "b"], ["b"]),
        ([0, None, 1], ["a", "b"], ["a", "b"]),
        ([0, 1, 2], ["a", "b", "a"], ["a", "b"]),
        ([0, 1, 0], ["a", None], ["a"]),
        ([None], [], []),
        ([], ["a"], []),
        ([], [], []),
    ],
)
def test_the_words_that_occur_stand_in_their_order(indices, words, expected):
    column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(words, pa.string()))
    found = occurring(column)
    found.validate(full=True)
    assert found.dictionary.to_pylist() == expected
    assert found.to_pylist() == column.to_pylist()


@pytest.mark.parametrize("words", [["a", "b"], ["a", "a"], ["a", None], [None, None]])
@pytest.mark.parametrize("indices", [[1, 0, 1], [0, None], [None], []])
def test_words_parsed_in_bulk_equal_those_parsed_one_by_one(indices, words):
    for kind in (pa.int32(), pa.int64()):
        found = words_at(pa.array(indices, kind), pa.array(words, pa.string()))
        assert found.type == pa.dictionary(pa.int32(), pa.string())
        assert found.to_pylist() == [None if index is None else words[index] for index in indices]
        assert len(found.dictionary.unique().drop_null()) == len(found.dictionary)


@pytest.mark.parametrize("numbers", [[7, 8], [7, 7], [7], [7, None], [None], []])
def test_numbers_parsed_in_bulk_equal_those_parsed_one_by_one(numbers):
    positions = [*range(len(numbers)), *range(len(numbers))]
    for indices in (positions, [*positions, None]):
        found = at(pa.array(indices, pa.int32()), pa.array(numbers, pa.int32()))
        assert found.to_pylist() == [None if index is None else numbers[index] for index in indices]
