"""Plans for sleeping devices: the order of writes, how long a write waits, and results that arrive days later."""

import threading
from datetime import timedelta

import pytest
from client_test_data import DIMMER, LAMP, all_to, statuses
from resource_paths import LEVEL
from thread_waits import until

from mirror_sdk import InvalidValue, show_progress

DAY_SECONDS = 24 * 3600
CONTACT = timedelta(minutes=15)


@pytest.fixture
def add(simulator, plain):
    """Add a device with a known level. A sleeping device has fallen asleep."""

    def add(name, *, sleeps=False, is_known=True):
        device_id = simulator.add_device(name, [DIMMER, LAMP], queue_mode=sleeps)
        if is_known:
            plain.read_value(device_id, LEVEL)
        if sleeps:
            simulator.advance(11)
        return device_id

    return add


@pytest.fixture
def sleepers(add):
    return [add(f"sleeper-{number}", sleeps=True) for number in range(3)]


@pytest.fixture
def lights(add, sleepers):
    """Two devices that are awake, added after the sleeping ones."""
    return [add(f"light-{number}") for number in range(2)]


def own_levels(simulator, devices):
    """Return the values of the devices without waking them."""
    found = {one.id: {resource.path: resource.value for resource in one.resources} for one in simulator.list_devices()}
    return [found[device_id][LEVEL] for device_id in devices]


def test_expiry_is_longer_for_a_device_that_was_silent_for_long(client, simulator, sleepers, lights):
    frame = client.plan([*all_to([sleepers[0], lights[0]]), ("nobody", LEVEL, 1), (lights[1], LEVEL, 10)]).frame
    assert frame["expiry_seconds"].tolist()[:2] == [3 * DAY_SECONDS, 60]
    assert frame["sleeps"].tolist()[:2] == [True, False]
    for column in ("expiry_seconds", "sleeps", "undoable"):
        assert frame[column].isna().tolist() == [False, False, True, True]
    simulator.set_online(sleepers[1], False)
    for days, expected_days in [(1, 3), (4, 10), (20, 30)]:
        simulator.advance(timedelta(days=days))
        (expiry_seconds,) = client.plan(all_to(sleepers[1:2])).frame["expiry_seconds"]
        assert expiry_seconds == pytest.approx(expected_days * DAY_SECONDS, abs=3600)
    result = client.plan(all_to(sleepers[:1], 50)).apply(expiry_seconds=3600)
    assert (result["expires_at"] - result["accepted_at"]).dt.total_seconds().tolist() == [3600]


def test_sleeping_device_accepts_its_write_at_its_next_contact_without_a_wait(client, simulator, sleepers, lights):
    plan = client.plan(all_to([*sleepers, *lights]))
    assert "3 devices sleep and receive their writes at their next contact, within 3 days; nothing was sent" in repr(
        plan
    )
    result = plan.apply()
    assert statuses(result) == ["pending"] * 3 + ["success"] * 2
    waits = (result["expires_at"] - result["accepted_at"]).dt.total_seconds().tolist()
    assert waits == [3 * DAY_SECONDS] * 3 + [60] * 2
    until = f"{result['expires_at'].max():%Y-%m-%d %H:%M:%S} UTC"
    assert f"3 devices sleep and receive their writes at their next contact, by {until} at the latest" in repr(plan)
    assert "call apply() again to read the responses" in repr(plan)
    assert plan.stopped_because is None
    simulator.advance(CONTACT)
    assert statuses(plan.apply()) == ["success"] * 5
    assert "sleep" not in repr(plan)
    assert own_levels(simulator, sleepers) == ["40"] * 3


def test_wait_for_sleeping_devices_ends_at_timeout_and_stop(client, sleepers, lights):
    plan = client.plan(all_to([*sleepers, *lights]))
    plan.apply(timeout=0.2)
    until(lambda: statuses(plan.apply(timeout=0)) == ["pending"] * 3 + ["success"] * 2)
    applied = []
    thread = threading.Thread(target=lambda: applied.append(plan.apply(timeout=300)))
    thread.start()
    while thread.is_alive():
        # Apply it again, since the plan may not have started the first time.
        plan.stop()
        thread.join(0.1)
    assert statuses(applied[0]) == ["pending"] * 3 + ["success"] * 2


def test_canary_is_an_awake_device(client, simulator, sleepers, lights, capsys):
    simulator.set_response_mode(lights[0], "reject")
    plan = client.plan(all_to([*sleepers, *lights]))
    assert statuses(plan.apply()) == ["queued"] * 3 + ["failure", "queued"]
    assert f"the canary write to {LEVEL} of light-0 failed" in repr(plan)
    assert client.requests.list() == []
    show_progress(True)
    try:
        assert statuses(plan.apply()) == ["pending"] * 3 + ["failure", "success"]
    finally:
        show_progress(None)
    assert "writes:   0%" in capsys.readouterr().err


def test_unregistered_device_is_never_a_canary(client, simulator, add):
    unregistered, *lights = [add(f"light-{number}") for number in range(3)]
    simulator.deregister(unregistered)
    simulator.set_response_mode(lights[0], "reject")
    plan = client.plan(all_to([unregistered, *lights]))
    assert statuses(plan.apply(include_offline=True, timeout=60)) == ["queued", "failure", "queued"]


def test_sleeping_devices_are_written_to_after_awake_ones_and_are_no_failures(client, simulator, sleepers, lights):
    simulator.set_response_mode(lights[1], "reject")
    plan = client.plan(all_to([*sleepers, *lights]))
    assert statuses(plan.apply(max_failures=0)) == ["queued"] * 3 + ["success", "failure"]
    assert client.requests.list() == []
    # The earlier success counts as a canary, and pending writes of sleeping devices are not failures.
    assert statuses(plan.apply(max_failures=0)) == ["pending"] * 3 + ["success", "failure"]
    assert plan.stopped_because is None


def test_plan_without_awake_devices_needs_canary_0(client, simulator, sleepers):
    plan = client.plan(all_to(sleepers))
    words = r"canary=1: none of the 3 writes .* is for a device that is awake.*canary=0"
    with pytest.raises(InvalidValue, match=words):
        plan.apply()
    assert statuses(plan.result) == ["queued"] * 3
    assert client.requests.list() == []
    # A single write needs no canary.
    single = client.plan(all_to(sleepers[:1], 50))
    assert "1 device sleeps and receives its writes at its next contact, within 3 days" in repr(single)
    assert statuses(single.apply()) == ["pending"]
    assert statuses(plan.apply(canary=0)) == ["pending"] * 3
    # Applying again only checks pending writes, so it needs no canary. They can be undone before delivery.
    assert statuses(plan.apply()) == ["pending"] * 3
    assert statuses(plan.undo().apply(canary=0)) == ["pending"] * 3
    simulator.advance(CONTACT)
    assert own_levels(simulator, sleepers) == ["10"] * 3


def fall_asleep(simulator, devices, days):
    """Advance the clock, after which the devices make contact; with ``days=0`` immediately."""
    for device_id in devices:
        simulator.set_online(device_id, False)
    simulator.advance(timedelta(days=days))
    for device_id in devices:
        simulator.set_online(device_id, True)


def test_outcome_of_days_ago_is_found_and_not_written_again(client, new_client, simulator, sleepers, lights, tmp_path):
    plan = client.plan(all_to([*sleepers, *lights]))
    first = plan.apply()
    plan.save(tmp_path / "plan.json")
    fall_asleep(simulator, sleepers, days=1)
    # By then the service has deleted the async-ids and the responses.
    fall_asleep(simulator, sleepers, days=2)
    for device_id in (*sleepers, *lights):
        simulator.set_value(device_id, LEVEL, 7)
    loaded = client.plans.load(tmp_path / "plan.json")
    assert loaded.frame.equals(plan.frame)
    assert statuses(loaded.result) == statuses(first) == ["pending"] * 3 + ["success"] * 2
    again = loaded.apply()
    assert again["async_id"].tolist() == first["async_id"].tolist()
    assert statuses(again) == ["success"] * 5
    assert again["accepted_at"].equals(first["accepted_at"])
    assert again["finished_at"].notna().all()
    assert own_levels(simulator, [*sleepers, *lights]) == ["7"] * 5
    # The plan object in the program has the same result.
    assert statuses(plan.apply()) == ["success"] * 5
    loaded.save(tmp_path / "plan.json")
    assert client.plans.load(tmp_path / "plan.json").result["finished_at"].equals(again["finished_at"])


def test_write_that_was_replaced_is_not_sent_again_days_later(client, plain, simulator, sleepers, tmp_path):
    plan = client.plan(all_to(sleepers[:1]))
    plan.apply()
    plan.save(tmp_path / "plan.json")
    simulator.advance(1)
    plain.requests.begin_write(sleepers[0], LEVEL, 60)
    fall_asleep(simulator, sleepers, days=1)
    fall_asleep(simulator, sleepers, days=2)
    assert statuses(client.plans.load(tmp_path / "plan.json").apply()) == ["pending"]
    assert client.requests.list() == []
    assert own_levels(simulator, sleepers[:1]) == ["60"]
