"""Hypothesis strategies for values of each resource type."""

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from client_test_data import BOOLEAN, FLOAT, INTEGER, OBJLINK, OPAQUE, STRING, TIME, UNSIGNED
from hypothesis import strategies as st
from resource_paths import LEVEL, UNDECLARED

LINKS = st.builds("{}:{}".format, st.integers(0, 65535), st.integers(0, 65535))
FULL_SECONDS = st.datetimes(timezones=st.just(UTC)).map(lambda instant: instant.replace(microsecond=0))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    FLOAT: st.floats(allow_nan=False, allow_infinity=False),
    INTEGER: st.integers(-(2**63), 2**63 - 1),
    LEVEL: st.integers(0, 100),
    UNSIGNED: st.integers(0, 2**64 - 1),
    BOOLEAN: st.booleans(),
    STRING: st.text(),
    TIME: FULL_SECONDS,
    OBJLINK: LINKS,
    OPAQUE: st.binary(),
    UNDECLARED: st.text(),
}


def pairs_of(values: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    """Return a strategy for pairs of a path and a value."""
    return st.sampled_from(list(values)).flatmap(lambda path: st.tuples(st.just(path), values[path]))
