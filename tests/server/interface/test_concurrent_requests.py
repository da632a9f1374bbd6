"""Device requests accepted or completed in one group have the same results as one after the other."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mirror_server.core.commands import CommandRequest
from mirror_server.core.errors import ApiError
from mirror_server.devices.interface import Content, DeviceResponse, Outcome, Registration
from mirror_server.hooks import Extensions
from mirror_server.service.commands import CommandSubmission
from mirror_server.service.devices import DeviceService
from mirror_server.store import commands, devices
from mirror_server.store.maintenance import violations
from mirror_server.store.resources import AnnouncedResource
from mirror_server.store.session import WAITING

PATHS = ("/3303/0/5700", "/3311/0/5850")
APPS = ("a", "b")
ENDS = [None, *(outcome for outcome in Outcome if outcome is not Outcome.DONE), *[Outcome.DONE] * 8]

Run = Callable[[Any, Callable[..., Any], Sequence[Any]], list[Any]]


def at_once(server: Any, work: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
    return server.services.database.write(lambda session: work(session, list(items))) or []


def one_by_one(server: Any, work: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
    return [result for item in items for result in at_once(server, work, [item])]


def add_devices(server: Any, number: int) -> list[str]:
    devices: DeviceService = server.services.devices
    introduced = tuple(AnnouncedResource(path) for path in PATHS)
    results = [Registration(f"sensor-{at}", "Sensor", False, 86_400, introduced, "test") for at in range(number)]
    return [devices.registered(each).result(60) for each in results]


def stored(server: Any, ids: list[str]) -> list[Any]:
    """Return all results of requests except numbers and ids, which differ each time."""
    of_each: list[Any] = []
    revisions: list[int] = []
    with server.services.database.read() as session:
        assert list(violations(session, Extensions().storages)) == []
        for device_id in ids:
            found = devices.object_of(session, device_id)
            assert found is not None
            device, resources = found
            revisions += [number for each in resources for number in (each.reported_revision, each.desired_revision)]
            sanitized = [each._replace(reported_revision=None, desired_revision=None) for each in resources]
            queued = [replace(each, command_id=0, device_id="") for each in commands.waiting(session, device_id)]
            of_each.append((device.last_contact_at, sanitized, queued))
    assigned = [number for number in revisions if number]
    assert len(set(assigned)) == len(assigned)
    results = [entry.body for app_id in APPS for entry in server.services.log.read(app_id, 0, 1000).entries]
    logged = [{**body, "uid": "", "ep": ids.index(body["ep"])} for body in results if "id" in body]
    return [of_each, logged]


def random_submission(chance: random.Random, number: int, ids: list[str]) -> CommandSubmission:
    """Return a random submission, sometimes with an async-id that is used already or by the other application."""
    device_id, path = chance.choice(ids), chance.choice(PATHS)
    payload = b"%d" % number
    request = CommandRequest("PUT", path, payload=payload, content_type="text/plain")
    if chance.random() < 0.4:
        request = CommandRequest("GET", path)
    elif chance.random() < 0.2:
        request = CommandRequest("POST", path)
    retries, is_silent = chance.choice([None, 0, 2]), chance.random() < 0.1
    return CommandSubmission(chance.choice(APPS), device_id, request, f"{number}", retries=retries, is_silent=is_silent)


def play(server: Any, seed: int, run: Run) -> list[Any]:
    """Submit and complete requests in a few rounds; return the stored results after each round."""
    chance, services = random.Random(seed), server.services
    ids = add_devices(server, 5)
    for app_id in APPS:
        services.log.ensure_log(app_id)
    assert services.database.settle(60)
    results: list[Any] = []
    for turn in range(4):
        submissions = [random_submission(chance, number, ids) for number in range(20 * turn, 20 * turn + 12)]
        # The same request again: the first one counts.
        submissions += [submissions[at] for at in (0, 3, 3)]
        accepted = run(server, services.commands._submit, submissions)
        results.append([(command.app_id, command.async_id, command.requested_at) for command in accepted])
        server.services.clock.advance(1)
        with services.database.read() as session:
            waiting = [command for device_id in ids for command in commands.waiting(session, device_id)]
        # Some complete twice: the second time late.
        ending = [*chance.sample(waiting, len(waiting) // 2), *chance.sample(waiting, 4)]
        run(server, services.commands.finish, [(command, response_of(chance.choice(ENDS))) for command in ending])
        results.append(stored(server, ids))
        server.services.clock.advance(1)
    return results


def response_of(outcome: Outcome | None) -> DeviceResponse | None:
    if outcome is None:
        return None
    return DeviceResponse(outcome, Content(b"7", "text/plain", 60) if outcome is Outcome.DONE else None)


@pytest.mark.parametrize("seed", range(2))
def test_concurrent_requests_have_the_same_results_as_sequential_ones(new_server, seed):
    together, sequential = (play(new_server(), seed, run) for run in (at_once, one_by_one))
    assert together == sequential


def test_invalid_request_in_a_group_fails_alone(server, key):
    services, app_id = server.services, key.split("_")[1]
    one, two = add_devices(server, 2)
    write = CommandRequest("PUT", PATHS[0], payload=b"1", content_type="text/plain")
    submissions = [
        (one, "1", write, None),
        ("nobody", "2", write, 404),
        (two, "1", write, 409),
        (one, "1", write, None),
        (two, "3", CommandRequest("GET", "/1/0/0"), 400),
        (two, "4", write, None),
    ]
    accepted = [
        services.commands.submit(CommandSubmission(app_id, device_id, request, async_id))
        for device_id, async_id, request, _ in submissions
    ]
    assert [getattr(future.exception(60), "code", None) for future in accepted] == [code for *_, code in submissions]
    with services.database.read() as session:
        waiting = [commands.waiting(session, device_id) for device_id in (one, two)]
    assert [[command.async_id for command in some] for some in waiting] == [["1"], ["4"]]


def test_one_async_id_for_two_devices_in_one_group_is_409(server):
    submissions = [
        CommandSubmission("a", device_id, CommandRequest("GET", PATHS[0]), "1") for device_id in add_devices(server, 2)
    ]
    with pytest.raises(ApiError, match="'1' was used for another request"):
        at_once(server, server.services.commands._submit, submissions)


def test_queue_limit_applies_to_concurrent_requests(server, key):
    services, app_id = server.services, key.split("_")[1]
    (device_id,) = add_devices(server, 1)
    request = CommandRequest("GET", PATHS[0])
    accepted = [services.commands.submit(CommandSubmission(app_id, device_id, request, f"{at}")) for at in range(30)]
    assert [getattr(future.exception(60), "code", None) for future in accepted] == [None] * 20 + [429] * 10
    with services.database.read() as session:
        assert len(commands.waiting(session, device_id)) == 20


def submit_elsewhere(server: Any, key: str, ids: list[str]) -> None:
    """Submit a read for each device like another process whose signals have not arrived yet."""
    request = CommandRequest("GET", "/3303/0/5700")
    accepted = [CommandSubmission(key.split("_")[1], one, request, one) for one in ids]
    # Its own signals count as those of another process.
    handler = server.services.database.backend.writing.handlers.pop(WAITING)
    server.services.database.write(lambda session: server.services.commands._submit(session, accepted))
    server.services.database.on(WAITING, handler)


def test_queues_of_devices_woken_together_are_read_together(server, key, monkeypatch):
    ids = [server.add_device(key, f"sensor-{number}") for number in range(3)]
    submit_elsewhere(server, key, ids)
    read = []
    of_devices = commands.pending_work
    monkeypatch.setattr(
        commands, "pending_work", lambda *submissions: read.append(submissions[1]) or of_devices(*submissions)
    )
    server.services.dispatcher.wake(*ids)
    assert server.services.database.settle(60)
    assert read[0] == ids
    assert server.responses(key) == dict.fromkeys(ids, (200, None))


FAILURES: dict[str, tuple[Callable[[Any], Any], str, Callable[..., bool]]] = {
    "its rows cannot be read": (lambda _: commands, "pending_work", lambda one, _session, ids, _now: one in ids),
    "it cannot be looked for": (lambda dispatcher: dispatcher._backends, "is_reachable", lambda one, id_: id_ == one),
    "it cannot be sent to": (
        lambda dispatcher: dispatcher._backends,
        "send",
        lambda one, device_id, *_: device_id == one,
    ),
    "its response cannot be stored": (
        lambda dispatcher: dispatcher,
        "_finish",
        lambda one, job, _: job.device_id == one,
    ),
}


@pytest.mark.parametrize("failing", FAILURES)
def test_failing_device_does_not_delay_others(server, key, monkeypatch, caplog, failing):
    dispatcher = server.services.dispatcher
    ids = [server.add_device(key, f"sensor-{number}") for number in range(3)]
    of, name, is_of = FAILURES[failing]
    call = getattr(of(dispatcher), name)

    def fail(*arguments: Any) -> Any:
        if is_of(ids[1], *arguments):
            raise ValueError(failing)
        return call(*arguments)

    submit_elsewhere(server, key, ids)
    monkeypatch.setattr(of(dispatcher), name, fail)
    dispatcher.wake(*ids)
    for _ in range(4):
        server.advance(key, 1)
        assert server.responses(key) == {ids[0]: (200, None), ids[2]: (200, None)}
    failures = [record for record in caplog.records if record.exc_info and ids[1] in record.getMessage()]
    # Logged once, although it was retried each second.
    assert [str(record.exc_info[1]) for record in failures] == [failing]
    monkeypatch.undo()
    server.advance(key, 1)
    assert server.responses(key) == dict.fromkeys(ids, (200, None))
    # A failed delivery has no timeout that could end the next one.
    server.advance(key, 120)
    assert len(server.responses(key)) == 3
    assert dispatcher.in_flight() == set()
