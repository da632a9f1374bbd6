from __future__ import annotations

import re

import pytest
from resource_paths import DOOR, TEMPERATURE

from mirror_server.devices.interface import Observe, Registration
from mirror_server.extensions.simulator.device import SimulatedResource, SimulatedState, SimulatorError
from mirror_server.extensions.simulator.kinds import KINDS
from mirror_server.store.resources import AnnouncedResource


def test_ids_depend_on_seed_and_index_only(new_world):
    def ids(seed: int, count: int, begin_at: int) -> dict[str, str]:
        world = new_world(seed, begin_at)
        world.simulator.start(count)
        return {state.endpoint_name: state.id for state in world.simulator.list_states()}

    few, many, others = ids(7, 6, 0), ids(7, 12, 10**12), ids(8, 6, 0)
    assert few.items() <= many.items()
    assert not set(few.values()) & set(others.values())
    assert all(re.fullmatch("[0-9a-f]{32}", device_id) for device_id in many.values())
    assert len(set(many.values())) == 12


def test_values_depend_on_seed_and_instant_only(new_world):
    def states(count: int, seconds_before: int) -> list[SimulatedState]:
        world = new_world()
        world.advance(seconds_before)
        world.simulator.start(count)
        world.advance(5000 - seconds_before)
        names = {"thermometer-01", "smart-plug-01", "door-contact-01"}
        return [state for state in world.simulator.list_states() if state.endpoint_name in names]

    assert states(6, 5000) == states(12, 0)


def test_added_device_is_saved_before_it_registers(world):
    device_id = world.add("lamp", queue_mode=True, switch={"value": "1", "observable": True, "writable": True})
    introduced = (AnnouncedResource("/3311/0/5850"),)
    registration = Registration("lamp", "Test", True, 24 * 3600, introduced, "simulated", device_id)
    assert world.diary.all("registered") == [registration]
    assert [name for name, _, _ in world.diary.entries] == ["saved", "registered"]
    switch = SimulatedResource("/3311/0/5850", "1", observable=True, writable=True)
    assert world.simulator.list_states() == [
        SimulatedState(device_id, "lamp", "Test", True, True, True, "normal", 0.0, (switch,))
    ]


def test_seeded_device_skips_used_name(world):
    added = world.add("thermometer-01")
    world.simulator.start(3)
    states = world.simulator.list_states()
    assert sorted(state.endpoint_name for state in states) == ["light-01", "thermometer-01", "weather-station-01"]
    assert world.id_of("thermometer-01") == added


def test_changed_observed_value_is_sent(world):
    device_id = world.add(temperature={"value": "20", "observable": True})
    world.simulator.set_value(device_id, TEMPERATURE, value="21")
    assert world.diary.observations() == []
    world.send(device_id, Observe(TEMPERATURE))
    world.advance(5)
    world.simulator.set_value(device_id, TEMPERATURE, value="22")
    world.simulator.set_value(device_id, TEMPERATURE, value="22")
    (observation,) = world.diary.observations()
    assert (observation.device_id, observation.content.payload) == (device_id, b"22")
    assert observation.changed_at == world.clock.now()


def test_offline_device_sends_change_with_its_time_when_online_again(world):
    device_id = world.add(door={"value": "0", "auto_observable": True})
    world.simulator.set_behavior(device_id, online=False)
    world.simulator.set_value(device_id, DOOR, value="1")
    changed_at = world.clock.now()
    world.advance(60)
    world.simulator.set_value(device_id, DOOR, value="1")
    assert world.diary.observations() == []
    world.simulator.set_behavior(device_id, online=True)
    assert world.diary.names() == ["registered", "contact", "observed"]
    assert [(o.content.payload, o.changed_at) for o in world.diary.observations()] == [(b"1", changed_at)]
    # A device that is online already makes no contact.
    world.simulator.set_behavior(device_id, online=True, latency_seconds=1.5)
    assert len(world.diary.all("contact")) == 1
    assert world.state(device_id).latency_seconds == 1.5


@pytest.mark.parametrize(("hours", "made_up"), [(13, ["updated", "contact"]), (24, ["registered"])])
def test_device_sends_missed_update_when_online_again(world, hours, made_up):
    device_id = world.add()
    world.simulator.set_behavior(device_id, online=False)
    world.advance(hours * 3600)
    world.simulator.set_behavior(device_id, online=True)
    assert world.diary.names() == ["registered", *made_up]


def test_new_resource_is_sent_after_registration_update(world):
    device_id = world.add(temperature={"value": "20", "observable": True})
    world.simulator.set_value(device_id, DOOR, value="1", auto_observable=True)
    assert world.diary.observations() == []
    world.simulator.update(device_id)
    door = AnnouncedResource(DOOR, observable=False, auto_observed=True)
    structure = (AnnouncedResource(TEMPERATURE, observable=True), door)
    assert world.diary.all("updated") == [(device_id, structure)]
    assert world.diary.values(DOOR) == ["1"]
    world.simulator.set_value(device_id, DOOR, value="0")
    assert world.diary.values(DOOR) == ["1", "0"]
    world.simulator.update(device_id)
    assert world.diary.all("updated")[-1] == (device_id, None)


def test_removed_resource_is_missing_in_next_update(world):
    device_id = world.add(temperature={"value": "20"}, switch={"value": "1"})
    world.simulator.remove_resource(device_id, TEMPERATURE)
    world.advance(12 * 3600)
    assert world.diary.all("updated") == [(device_id, (AnnouncedResource("/3311/0/5850", observable=False),))]
    with pytest.raises(SimulatorError) as error_response:
        world.simulator.remove_resource(device_id, TEMPERATURE)
    assert error_response.value.field == "path"


def test_full_registration_ends_observations(world):
    device_id = world.add(temperature={"value": "20"}, door={"value": "0", "auto_observable": True})
    world.send(device_id, Observe(TEMPERATURE))
    world.simulator.register(device_id)
    world.simulator.set_value(device_id, TEMPERATURE, value="21")
    world.simulator.set_value(device_id, DOOR, value="1")
    assert [o.path for o in world.diary.observations()] == [DOOR]


def test_deregistered_device_is_unreachable_until_it_registers(world):
    device_id = world.add(temperature={"value": "20", "auto_observable": True}, queue_mode=True)
    world.simulator.deregister(device_id)
    assert world.diary.all("deregistered") == [device_id]
    assert not world.state(device_id).registered
    assert not world.simulator.is_reachable(device_id)
    world.simulator.set_value(device_id, TEMPERATURE, value="21")
    for online in (False, True):
        world.simulator.set_behavior(device_id, online=online)
    world.advance(24 * 3600)
    assert world.diary.names() == ["registered", "deregistered"]
    world.simulator.register(device_id)
    assert world.diary.names()[2:] == ["registered", "observed"]
    assert world.simulator.is_reachable(device_id)


def test_seeded_devices_have_all_kinds_and_register_their_resources(world):
    world.simulator.start(14)
    names = {state.endpoint_name: state.endpoint_type for state in world.simulator.list_states()}
    assert len(names) == 14
    assert set(names.values()) == {kind.endpoint_type for kind in KINDS}
    assert {"thermometer-01", "thermometer-02", "thermometer-03", "weather-station-03", "light-02"} <= names.keys()
    registrations: list[Registration] = world.diary.all("registered")
    light = next(registration for registration in registrations if registration.endpoint_name == "light-01")
    assert (light.device_id, light.endpoint_type) == (world.id_of("light-01"), "Light")
    assert (light.lifetime_seconds, light.queue_mode) == (24 * 3600, False)
    introduced = {resource.path: resource.observable for resource in light.resources}
    assert (introduced["/3311/0/5850"], introduced["/3/0/4"]) == (True, False)
    assert all({f"/3/0/{number}" for number in range(5)} <= {r.path for r in reg.resources} for reg in registrations)


def test_sleeping_device_saves_and_sends_controlled_change_at_once(world):
    device_id = world.add(queue_mode=True, door={"value": "0", "auto_observable": True})
    world.advance(60)
    begin = len(world.diary.entries)
    world.simulator.set_value(device_id, DOOR, value="1")
    assert [name for name, _, _ in world.diary.entries[begin:]] == ["saved", "observed"]
    assert world.diary.values(DOOR) == ["1"]
