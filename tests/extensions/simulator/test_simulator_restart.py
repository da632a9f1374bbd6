from __future__ import annotations

import json

import pytest
from resource_paths import DOOR, SWITCH, TEMPERATURE

from mirror_server.devices.interface import Content, Observe, Write, WriteAttributes


def test_stored_devices_continue_without_messages(world):
    world.simulator.start(6)
    world.restart(6, after_seconds=5)
    assert world.diary.names() == []
    assert all(world.simulator.is_reachable(state.id) for state in world.simulator.list_states())


def test_sleeping_device_sleeps_until_next_contact(world):
    device_id = world.add(queue_mode=True, temperature={"value": "20"})
    world.advance(20 * 60)
    *_, last_at = world.diary.times("contact")
    world.restart()
    assert not world.simulator.is_reachable(device_id)
    world.advance(15 * 60)
    assert world.diary.times("contact") == [last_at + 15 * 60_000]


def test_larger_count_adds_only_missing_devices(world):
    """Devices of the simulator count too."""
    world.simulator.start(5)
    world.add("lamp")
    world.restart(8)
    added = [registration.endpoint_name for registration in world.diary.all("registered")]
    assert added == ["thermostat-01", "thermometer-02"]
    world.restart(3)
    assert len(world.simulator.list_states()) == 8


def test_states_are_the_same_after_a_restart(world):
    device_id = world.seeded("thermostat-01", count=12)
    world.simulator.set_behavior(device_id, answer="reject", latency_seconds=0.5)
    world.simulator.set_value(device_id, "/10/0/1", value="own", observable=True, writable=True)
    world.send(world.id_of("light-01"), Write(SWITCH, Content(b"1")))
    before = world.simulator.list_states()
    world.restart(12)
    assert world.simulator.list_states() == before


def test_offline_and_deregistered_devices_stay_as_they_were(world):
    world.simulator.set_behavior(world.add("offline"), online=False)
    world.simulator.deregister(world.add("gone"))
    before = world.simulator.list_states()
    world.restart()
    world.advance(24 * 3600)
    assert (world.diary.names(), world.simulator.list_states()) == ([], before)


def test_restarted_simulator_continues_same_curves(new_world):
    """Also with another seed: each device continues with the seed with which it was created."""

    def run(restart: bool):
        world = new_world(7)
        world.simulator.start(6)
        station, door = world.id_of("weather-station-01"), world.id_of("door-contact-01")
        world.send(station, Observe(TEMPERATURE))
        world.advance(3600)
        if restart:
            world.restart(6, seed=8)
        half_time = world.clock.now()
        world.advance(4 * 3600)
        entries = [(at, what) for name, at, what in world.diary.entries if name == "observed" and at > half_time]
        return entries, [state for state in world.simulator.list_states() if state.id in {station, door}]

    entries, states = run(restart=False)
    assert {observation.path for _, observations in entries for observation in observations} == {TEMPERATURE, DOOR}
    assert run(restart=True) == (entries, states)


def test_restarted_device_sends_only_values_the_service_has_not_received(world):
    device_id = world.add(temperature={"value": "20"}, door={"value": "1", "auto_observable": True})
    world.send(device_id, Observe(TEMPERATURE))
    world.simulator.set_value(device_id, TEMPERATURE, value="21")
    for door in ("1", "0"):
        world.simulator.set_value(device_id, DOOR, value=door)
        world.restart(after_seconds=5)
        assert world.diary.names() == []
    last_observed = dict(world.diary.last_observed)
    world.simulator.set_value(device_id, TEMPERATURE, value="22")
    world.simulator.set_value(device_id, DOOR, value="1")
    assert (world.diary.values(TEMPERATURE), world.diary.values(DOOR)) == (["22"], ["1"])
    world.diary.last_observed = last_observed
    world.restart()
    assert (world.diary.values(TEMPERATURE), world.diary.values(DOOR)) == (["22"], ["1"])


def test_value_read_after_observation_is_not_sent_again(world):
    device_id = world.add(temperature={"value": "20"}, switch={"value": "0"})
    world.send(device_id, WriteAttributes(TEMPERATURE, "pmin=60"))
    for path in (TEMPERATURE, SWITCH):
        world.send(device_id, Observe(path))
    world.advance(10)
    world.simulator.set_value(device_id, TEMPERATURE, value="21")
    # A later read hides the observed value.
    world.diary.last_observed = {
        key: observed._replace(text=None) for key, observed in world.diary.last_observed.items()
    }
    world.restart(after_seconds=10)
    assert world.diary.names() == []
    world.advance(60)
    assert world.diary.values(TEMPERATURE) == ["21"]
    assert world.diary.values(SWITCH) == []


def test_observations_and_their_rules_survive(world):
    device_id = world.add(temperature={"value": "20"})
    world.send(device_id, WriteAttributes(TEMPERATURE, "pmin=50&pmax=100"))
    world.send(device_id, Observe(TEMPERATURE))
    begin_at = world.clock.now()
    world.restart()
    world.simulator.set_value(device_id, TEMPERATURE, value="21")
    world.advance(160)
    assert world.diary.values(TEMPERATURE) == ["21", "21"]
    assert [at - begin_at for at in world.diary.times("observed")] == [50_000, 150_000]


def test_registration_update_time_survives_a_restart(world):
    world.add()
    world.advance(5 * 3600)
    world.restart(after_seconds=3600)
    begin_at = world.clock.now()
    world.advance(24 * 3600)
    assert [(at - begin_at) / 3_600_000 for at in world.diary.times("updated")] == [6, 18]


@pytest.mark.parametrize(
    ("queue_mode", "hours", "made_up"),
    [(False, 11, []), (False, 13, ["updated"]), (False, 25, ["registered"]), (True, 1, ["contact"])],
)
def test_missed_actions_are_done_after_restart(world, queue_mode, hours, made_up):
    device_id = world.add(queue_mode=queue_mode)
    world.restart(after_seconds=hours * 3600)
    assert world.diary.names() == made_up
    assert world.simulator.is_reachable(device_id)


def test_unregistered_resources_are_sent_after_restart(world):
    device_id = world.add()
    world.simulator.set_value(device_id, DOOR, value="1")
    world.restart()
    world.simulator.update(device_id)
    ((_, resources),) = world.diary.all("updated")
    assert [resource.path for resource in resources] == [DOOR]


def test_modeled_value_is_not_stored(world):
    station = world.seeded("weather-station-01", count=2)
    assert json.loads(world.shelf.documents[station])["resources"][TEMPERATURE]["value"] is None
    saved = world.diary.all("saved").count([station])
    world.send(station, Observe(TEMPERATURE))
    world.advance(3600)
    assert world.diary.observations()
    assert world.diary.all("saved").count([station]) == saved + 1


@pytest.mark.parametrize(("rules", "repeated"), [("pmin=60", []), ("pmin=60&pmax=600", ["21", "21"])])
def test_clock_that_was_ahead_does_not_prevent_sending(world, rules, repeated):
    device_id = observed(world, rules)
    world.restart(after_seconds=-30 * 86_400)
    world.advance(700)
    assert world.diary.values(TEMPERATURE) == repeated
    world.advance(60)
    world.simulator.set_value(device_id, TEMPERATURE, value="22")
    assert world.diary.values(TEMPERATURE) == [*repeated, "22"]


def observed(world, rules: str) -> str:
    """A device whose temperature is observed with these attributes; the last value was 21."""
    device_id = world.add(temperature={"value": "20"})
    world.send(device_id, WriteAttributes(TEMPERATURE, rules))
    world.send(device_id, Observe(TEMPERATURE))
    world.advance(60)
    world.simulator.set_value(device_id, TEMPERATURE, value="21")
    assert world.diary.values(TEMPERATURE) == ["21"]
    return device_id


def test_sleeping_device_makes_contact_after_clock_was_ahead(world):
    device_id = world.add(queue_mode=True, temperature={"value": "20"})
    world.send(device_id, Observe(TEMPERATURE))
    world.restart(after_seconds=-30 * 86_400)
    assert world.diary.names() == ["updated", "contact"]
    world.simulator.set_value(device_id, TEMPERATURE, value="21")
    world.advance(900)
    assert world.diary.values(TEMPERATURE) == ["21"]
    world.advance(12 * 3600)
    assert len(world.diary.times("updated")) == 2


def test_clock_set_back_does_not_silence_devices(world):
    device_id = observed(world, "pmin=60")
    world.clock._now -= 86_400_000
    world.simulator.set_value(device_id, TEMPERATURE, value="22")
    assert world.diary.values(TEMPERATURE) == ["21", "22"]
