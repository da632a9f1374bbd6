"""A manual clock that also runs automatically."""

import pytest
from waits import wait_until

from mirror_server.extensions.simulator.clock_pacer import ClockPacer
from mirror_server.extensions.simulator.control import SimulatorControl


@pytest.fixture
def server(simulated_server):
    return simulated_server


@pytest.fixture
def pacing(server, monkeypatch):
    monkeypatch.setattr("mirror_server.extensions.simulator.clock_pacer._TICK_SECONDS", 0.01)
    monkeypatch.setattr("mirror_server.store.writer._RETRY_SECONDS", 0.02)
    started = ClockPacer(server.services.part(SimulatorControl), pace=60)
    started.start()
    yield started
    started.close()


def wait_until_it_passes(server):
    began_at = server.now
    wait_until(lambda: server.now != began_at, "time to pass")


def test_pacing_pauses_while_nothing_can_be_stored(server, pacing, disk):
    wait_until_it_passes(server)
    disk.break_down()
    server.services.part(SimulatorControl).run(lambda _: None).exception(60)
    stands_at = server.now
    assert server.services.part(SimulatorControl).run(lambda _: None).exception(60) is not None
    assert server.now == stands_at
    disk.set_read_only(read_only=False)
    wait_until_it_passes(server)


def test_closed_pacing_does_not_advance(server, pacing):
    wait_until_it_passes(server)
    pacing.close()
    stands_at = server.now
    server.services.part(SimulatorControl).run(lambda _: None).result(60)
    assert server.now == stands_at
