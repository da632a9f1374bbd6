"""The number of connections under the system's limit of open files, and messages about it for the operator."""

import resource

import pytest

from mirror_server.core.errors import CannotServe
from mirror_server.extensions.connections.open_files import allow_connections


@pytest.fixture
def connections(monkeypatch):
    """Return the number of possible connections under a soft and a hard limit, and the limits that were set."""

    def allow(soft, hard, requested=25_000):
        monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
        monkeypatch.setattr(resource, "setrlimit", lambda _, limits: new.append(limits))
        new = []
        return allow_connections(requested), new

    return allow


NO_LIMIT = resource.RLIM_INFINITY


def test_limit_is_raised_for_the_connections(connections, caplog):
    for soft, hard, requested, allowed, raised in (
        (256, 25_300, 25_000, 25_000, True),
        (256, NO_LIMIT, 25_000, 25_000, True),
        (25_300, 25_300, 25_000, 25_000, False),
        (NO_LIMIT, NO_LIMIT, 25_000, 25_000, False),
        (1024, 4096, 25_000, 3796, True),
        # The operator may allow only a few.
        (256, 320, 20, 20, True),
    ):
        assert connections(soft, hard, requested) == (
            allowed,
            [(min(requested + 300, hard % 2**63), hard)] if raised else [],
        )
        assert caplog.records == []


def test_few_connections_are_a_warning_with_the_numbers(connections, caplog):
    assert connections(256, 1024) == (724, [(1024, 1024)])
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "only 724 connections" in record.getMessage()
    assert "ulimit -n 25300" in record.getMessage()


@pytest.mark.parametrize(("hard", "requested"), [(399, 25_000), (310, 20), (256, 25_000)])
def test_too_few_connections_are_an_error_with_the_numbers_and_the_cure(connections, hard, requested):
    cure = "--max-connections" if hard > 300 else f"LimitNOFILE={requested + 300} in a systemd unit"
    with pytest.raises(CannotServe, match=rf"(?s){hard} open files(?=.*ulimit -n {requested + 300}).*{cure}"):
        connections(hard, hard, requested)
