"""How many connections the system's limit of open files allows, and what the operator learns of it."""

import resource

import pytest

from mirror_server.web import serve


@pytest.fixture
def connections(monkeypatch):
    """The connections that can be open under a soft and a hard limit."""

    def allow(soft, hard, wanted=25_000):
        monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
        monkeypatch.setattr(resource, "setrlimit", lambda _, limits: new.append(limits))
        new = []
        return serve._allow_connections(wanted), new

    return allow


@pytest.mark.parametrize("hard", [25_300, 1_048_576, resource.RLIM_INFINITY])
def test_soft_limit_is_raised_to_what_the_connections_need(connections, caplog, hard):
    assert connections(256, hard) == (25_000, [(25_300, hard)])
    assert caplog.records == []


@pytest.mark.parametrize("soft", [25_300, resource.RLIM_INFINITY])
def test_limit_that_is_high_enough_stays(connections, soft):
    assert connections(soft, soft) == (25_000, [])


def test_hard_limit_bounds_the_connections(connections, caplog):
    assert connections(1024, 4096) == (3796, [(4096, 4096)])
    assert caplog.records == []


def test_few_connections_are_a_warning_with_the_numbers(connections, caplog):
    assert connections(256, 1024) == (724, [(1024, 1024)])
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "only 724 connections" in record.getMessage()
    assert "ulimit -n 25300" in record.getMessage()


@pytest.mark.parametrize(("hard", "wanted"), [(399, 25_000), (310, 20)])
def test_too_few_connections_are_an_error_with_the_numbers(connections, hard, wanted):
    with pytest.raises(serve.TooFewFiles, match=rf"{hard} open files.*ulimit -n {wanted + 300}.*--max-connections"):
        connections(hard, hard, wanted)


def test_a_limit_below_the_files_of_the_server_itself_has_to_be_raised(connections):
    with pytest.raises(serve.TooFewFiles, match=r"LimitNOFILE=25300 in a systemd unit$"):
        connections(256, 256)


def test_as_few_connections_as_the_operator_wants_are_no_fault(connections, caplog):
    assert connections(256, 320, wanted=20) == (20, [(320, 320)])
    assert caplog.records == []
