"""Warnings point at the line of the program that caused them, and appear where something is lost."""

import asyncio
import threading
import warnings
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from changed_responses import Between
from client_test_data import URL
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk import GapWarning, MirrorClient, WaitTimeout
from mirror_sdk._protocol.gap_warnings import warn_of_gap
from mirror_sdk._warnings import calling_line, warn
from mirror_sdk.wire.log_entries import Gap

PATIENCE_SECONDS = 30


@pytest.fixture
def lose(simulator, device_id):
    """Return a function that makes the log drop all of its entries."""

    def drop():
        simulator.set_value(device_id, TEMPERATURE, 1.0)
        simulator.advance(timedelta(hours=25))
        simulator.set_value(device_id, TEMPERATURE, 2.0)

    return drop


@contextmanager
def pointing_at(mark, *categories):
    """Check that exactly these warnings are issued, and that all point at the line with this mark."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"  # {mark}")]
    assert [one.category for one in caught] == list(categories)
    assert {(one.filename, one.lineno) for one in caught} <= {(__file__, number)}


def test_losses_are_warned_of_where_responses_and_events_are_read(plain, device_id, lose):
    plain.subscribe(device_id, TEMPERATURE)
    request, *others = [plain.requests.begin_read(device_id, SWITCH) for _ in range(3)]
    lose()
    with pointing_at("waited for", GapWarning), pytest.raises(WaitTimeout):
        request.result(timeout=0)  # waited for
    with pointing_at("waited for"), pytest.raises(WaitTimeout):
        request.result(timeout=0)
    with pointing_at("a table", GapWarning):
        assert plain.requests.frame(others)["status"].tolist() == ["pending"] * 2  # a table
    with pointing_at("events", GapWarning):
        for event in plain.events(after=0, timeout=0):  # events
            assert event.seq is not None
    with pointing_at("events table", GapWarning):
        plain.notifications.events_frame(after=0, timeout=0)  # events table


@pytest.mark.parametrize(
    ("gap", "message"),
    [
        (Gap(None, None), r"\(all earlier entries\)"),
        (Gap(5, 9), r"\(5-9\)"),
        (Gap(101, 2**40 + 50), r"\(those from 101 on: the service was restored to an earlier state\)"),
    ],
)
def test_a_loss_is_described_as_far_as_known(gap, message):
    with pytest.warns(GapWarning, match=message):
        warn_of_gap(gap)


def test_a_loss_of_other_entries_does_not_concern_a_waiter(plain, simulator, device_id, lose):
    other = simulator.add_device("other", [{"path": SWITCH, "value": "0"}])
    plain.subscribe(device_id, TEMPERATURE)
    simulator.set_online(other, False)
    request = plain.requests.begin_read(other, SWITCH, expiry_seconds=7 * 24 * 3600)
    lose()
    simulator.set_online(other, True)
    with pointing_at("waited for"):
        assert request.result(timeout=PATIENCE_SECONDS).python is False
        assert request.done()


def test_with_an_asynchronous_client_it_is_the_line_that_awaits(run, device_id, lose, folder):
    async def scene(client):
        await client.subscribe(device_id, TEMPERATURE)
        await (await client.record(folder)).stop()
        request = await client.requests.begin_read(device_id, SWITCH)
        await asyncio.to_thread(lose)
        with pointing_at("awaited", GapWarning), pytest.raises(WaitTimeout):
            await request.result(timeout=0)  # awaited
        with pointing_at("async for", GapWarning):
            async for event in client.events(after=0, timeout=0):  # async for
                assert event.seq is not None
        with pointing_at("awaited table", GapWarning):
            await client.notifications.events_frame(after=0, timeout=0)  # awaited table
        with pointing_at("async recorded", GapWarning):
            await (await client.record(folder)).stop()  # async recorded

    run(scene)


# Plans


def test_a_plan_with_all_responses_warns_of_no_gap(client, simulator, device_id, lose, tmp_path):
    client.subscribe(device_id, TEMPERATURE)
    client.plan([(device_id, SWITCH, True)]).save(tmp_path / "plan.json")
    lose()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Loading reads from the start of the log, which was dropped.
        plan = client.plans.load(tmp_path / "plan.json")
        assert plan.apply()["status"].tolist() == ["success"]
        assert plan.apply()["status"].tolist() == ["success"]
        assert plan.undo().frame["check"].tolist() == ["no_earlier_value"]


def test_a_plan_with_a_lost_response_warns_at_the_call(mirror, device_id, lose):
    def lose_response(request, answer):
        """Drop the response from the log as soon as a request is submitted."""
        if request.method == "POST" and "/device-requests/" in request.url.path:
            lose()
        return answer

    with MirrorClient(URL, mirror.new_key(), transport=Between(mirror, lose_response)) as client:
        client.subscribe(device_id, TEMPERATURE)
        plan = client.plan([(device_id, SWITCH, True)])
        with pointing_at("applied", GapWarning):
            assert plan.apply(timeout=0.001)["status"].tolist() == ["pending"]  # applied
        with pointing_at("applied"):
            # The mirror knows the result of the write.
            assert plan.apply()["status"].tolist() == ["success"]


# The line itself


def test_without_any_line_of_a_program_a_warning_comes_all_the_same():
    found = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for target, arguments in ((warn, ("odd", UserWarning)), (lambda: found.append(calling_line()), ())):
            thread = threading.Thread(target=target, args=arguments)
            thread.start()
            thread.join(PATIENCE_SECONDS)
    assert [str(one.message) for one in caught] == ["odd"]
    # A function of the program counts as its line, even in a thread.
    assert found[0].file == __file__
