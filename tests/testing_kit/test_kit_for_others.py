"""How another project tests its program with the kit. This file is the documentation of the kit by example."""

import inspect
import textwrap

import pytest

import mirror_sdk.testing
from mirror_sdk.testing.faults import Faults

PROGRAM = '''
"""A program of another project: it switches a light, and keeps an eye on temperatures."""

from mirror_sdk import DeviceRequestFailed, MirrorClient


def switch_on(client: MirrorClient, device_id: str) -> str:
    try:
        client.write_value(device_id, "/3311/0/5850", True)
    except DeviceRequestFailed as failure:
        return failure.category
    return "on"


class Thermometer:
    """Keeps the newest temperature of a device, whatever arrives how often and in which order."""

    def __init__(self, client, device_id):
        client.subscribe(device_id, "/3303/0/5700")
        self.client, self.value, self.changed_at, self.after = client, None, None, 0

    def update(self, most):
        for event in self.client.events(after=self.after, limit=most):
            self.after = event.seq
            if event.kind == "observation" and (self.changed_at is None or event.changed_at > self.changed_at):
                self.value, self.changed_at = event.value.python, event.changed_at
'''

TESTS = """
from datetime import timedelta

import pytest
from program import Thermometer, switch_on

TEMPERATURE = "/3303/0/5700"
SWITCH = "/3311/0/5850"


@pytest.mark.parametrize("number", [1, 2])
def test_each_test_has_a_mirror_of_its_own(mirror, fleet, number):
    assert list(mirror.client.list_devices()) == []
    assert [device.endpoint_name for device in fleet(2)] == ["thermometer-01", "weather-station-01"]


@pytest.fixture
def light(fleet):
    return next(device for device in fleet(6, seed=1) if device.endpoint_type == "Light")


@pytest.fixture
def station(mirror):
    return mirror.bench.add_device("station", [{"path": TEMPERATURE, "value": "20", "observable": True}])


def test_a_light_is_switched_on(mirror, light):
    assert switch_on(mirror.client, light.id) == "on"
    assert light.values()[SWITCH] == "1"
    assert mirror.client.get_device(light.id)[SWITCH].desired.status == 1


def test_a_light_that_refuses_is_not_on(mirror, light, faults):
    with faults.reject(light):
        assert switch_on(mirror.client, light.id) == "REJECTED"
    assert switch_on(mirror.client, light.id) == "on"


def test_a_light_that_says_nothing_is_given_up(mirror, light, faults, clock):
    with faults.silence(light):
        request = mirror.client.begin_write(light.id, SWITCH, True)
        clock.advance("10min")
        assert request.exception().category == "TIMEOUT"


def test_a_light_that_is_away_gets_its_write_later(mirror, light, clock):
    light.set_online(False)
    request = mirror.client.begin_write(light.id, SWITCH, True, expiry_seconds=7200)
    clock.advance(timedelta(hours=1))
    assert not request.done()
    light.set_online(True)
    assert request.done()


@pytest.mark.parametrize("what", ["request", "answer"])
def test_a_lost_connection_does_not_switch_twice_or_never(mirror, light, faults, what):
    fault = faults.drop(what, path="/v2/device-requests/*")
    assert switch_on(mirror.client, light.id) == "on"
    assert fault.acted == 1


def test_a_slow_server_is_waited_for(mirror, light, faults, clock):
    began = clock.now()
    faults.delay("answer", "8s", path="/v2/device-requests/*")
    assert switch_on(mirror.client, light.id) == "on"
    assert clock.now() - began == timedelta(seconds=8)


def test_the_newest_temperature_wins(mirror, station, faults, clock):
    thermometer = Thermometer(mirror.client, station)
    thermometer.update(most=2)
    assert thermometer.value == 20
    faults.duplicate("notification")
    faults.reorder(2)
    for value in [21, 22]:
        clock.advance(60)
        mirror.bench.set_value(station, TEMPERATURE, value)
    thermometer.update(most=3)
    assert thermometer.value == 22


def test_nothing_is_forgotten_when_the_server_restarts(mirror, station, faults, clock):
    thermometer = Thermometer(mirror.client, station)
    clock.advance("1min")
    mirror.bench.set_value(station, TEMPERATURE, 25)
    faults.restart_server()
    thermometer.update(most=3)
    assert thermometer.value == 25


def test_devices_measure_while_time_passes(mirror, fleet, clock):
    station = next(device for device in fleet(6) if device.endpoint_type == "WeatherStation")
    mirror.client.subscribe(station.id, TEMPERATURE)
    clock.advance("1h")
    told = [event for event in mirror.read_log() if event.kind == "observation"]
    assert len(told) > 10
    assert {event.path for event in told} == {TEMPERATURE}
    assert told[-1].value.python == float(station.values()[TEMPERATURE])


def test_a_program_that_makes_its_own_client_is_given_the_transport(mirror):
    from mirror_sdk import MirrorClient

    with MirrorClient(mirror.url, mirror.new_key(["read"]), transport=mirror.transport) as client:
        assert list(client.list_devices()) == []


def test_a_program_on_an_event_loop(mirror, light):
    import asyncio

    async def switch():
        async with mirror.new_async_client() as client:
            await client.write_value(light.id, SWITCH, True)

    asyncio.run(switch())
    assert light.values()[SWITCH] == "1"
"""


def test_a_project_uses_the_kit_and_the_example_of_its_docstring(pytester: pytest.Pytester, run_project) -> None:
    (_, example) = inspect.getdoc(mirror_sdk.testing).split("fixtures::\n", 1)
    docstring = textwrap.dedent(example.split("\n``mirror`` is")[0])
    pytester.makepyfile(program=PROGRAM, test_program=TESTS, test_docstring=docstring)
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = --strict-markers --strict-config")
    run_project("-q").assert_outcomes(passed=15)


@pytest.mark.parametrize("fault", ["drop", "delay", "duplicate", "reorder", "reject", "silence", "restart_server"])
def test_the_example_and_the_documentation_know_every_fault(fault: str) -> None:
    assert f"faults.{fault}(" in TESTS
    assert f"``{fault}``" in inspect.getdoc(mirror_sdk.testing)
    assert inspect.getdoc(getattr(Faults, fault))
