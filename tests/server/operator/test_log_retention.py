"""The retention of the log: the formats of the option."""

import pytest
from click import BadParameter

from mirror_server.config import read_seconds


def test_log_retention_accepts_seconds_and_times():
    assert [read_seconds(text) for text in ("86400", "0.5e2", "12h", "7d")] == [86400, 50, 43200, 604800]
    for text in ("0", "0.5", "nan", "inf", "a day"):
        with pytest.raises(BadParameter):
            read_seconds(text)
    with pytest.raises(BadParameter, match="inf must be a finite time of at least a second, such as 86400 or 24h"):
        read_seconds("inf")
