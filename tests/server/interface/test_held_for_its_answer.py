"""A device request whose client would wait is answered when the device has, and tells how it ended (RFC 7240)."""

import asyncio
import json
import threading
from functools import partial

import pytest
from pydantic import ValidationError

from mirror_sdk.wire.device_requests import DeviceRequestAccepted
from mirror_server.clock import wall_time
from mirror_server.service import keys
from mirror_server.views.deferred import PARK, Deferred
from mirror_server.web.asgi_bridge import Bridge

TEMPERATURE, LEVEL, REBOOT = "/3303/0/5700", "/3311/0/5851", "/3/0/4"
READ = {"method": "GET", "uri": TEMPERATURE}
WRITE = {"method": "PUT", "uri": LEVEL, "payload-b64": "Nw=="}


@pytest.fixture
def device(server, key):
    return server.add_device(
        key,
        "sensor-1",
        {"path": TEMPERATURE, "value": "21.5", "observable": True},
        {"path": LEVEL, "value": "1", "writable": True},
        {"path": REBOOT, "executable": True},
    )


def without_end(future, timeout_seconds, **options):
    """A wait that is over when there is something to tell, and not before."""
    assert 0 < timeout_seconds <= 10
    return Deferred(future, 600, **options)


@pytest.fixture(autouse=True)
def no_wait_ends_by_itself(monkeypatch):
    monkeypatch.setattr("mirror_server.views.device_requests.Deferred", without_end)


@pytest.fixture
def bridge(server):
    return Bridge(server.app, max_body_bytes=1000, max_parked_polls=2)


class Asked:
    """A request through the bridge, on a loop that runs: its answer, once there is one."""

    def __init__(self, bridge, key, device, body, *, prefer="wait=10", query="async-id=mine", more=()):
        self.status = self.headers = self.content = None
        self.at_the_answer = None
        self.is_gone = asyncio.Event()
        self.look = lambda: None
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json", **dict(more)}
        if prefer is not None:
            headers["prefer"] = prefer
        scope = {"type": "http", "method": "POST", "path": f"/v2/device-requests/{device}", "http_version": "1.1"}
        scope |= {"scheme": "http", "query_string": query.encode()}
        scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._received = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        self.done = asyncio.ensure_future(bridge(scope, self._receive, self._send))

    async def _receive(self):
        if self._received:
            return self._received.pop()
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        if message["type"] == "http.response.start":
            self.at_the_answer = self.look()
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.content = json.loads(message["body"])

    async def parked(self):
        for _ in range(5):
            await asyncio.sleep(0)
        assert not self.done.done()


@pytest.fixture
def ask(server, bridge, key, device):
    """Places a request and gives it with its answer; ``look`` is called when that is given to be sent."""

    def ask(body=READ, look=lambda: None, **options):
        async def whole():
            asked = Asked(bridge, key, options.pop("device", device), body, **options)
            asked.look = look
            await asyncio.wait_for(asked.done, 60)
            return asked

        asked = asyncio.run(whole())
        assert server.services.database.settle(60)
        assert not server.services.log.awaited._waiting
        return asked

    return ask


def accepted(asked):
    assert asked.status == 202, asked.content
    DeviceRequestAccepted.model_validate(asked.content, extra="forbid", by_alias=True, by_name=False)
    assert asked.content["async-response-id"] == "mine"
    return asked.content.get("async-response")


def told(server, key):
    """The async responses of the log, by their ids."""
    return {entry["id"]: entry for kind, entry in server.log(key) if kind == "async-responses"}


@pytest.mark.parametrize("body", [READ, WRITE, {"method": "POST", "uri": REBOOT}], ids=["read", "write", "execute"])
def test_the_202_tells_how_it_ended_as_the_log_does(server, key, ask, body):
    asked = ask(body)
    assert accepted(asked)["status"] == 200
    assert accepted(asked) == told(server, key)["mine"]
    assert asked.headers["preference-applied"] == "wait=10"
    assert {"mirror-requested-at", "mirror-expires-at"} <= set(asked.headers)


def test_the_mirror_and_the_log_have_it_before_anybody_is_told(server, key, device, ask):
    asked = ask(WRITE, look=lambda: (server.resource(key, device, LEVEL)["desired"]["status"], told(server, key)))
    assert asked.at_the_answer == (1, {"mine": accepted(asked)})
    asked = ask(query="async-id=other", look=lambda: server.resource(key, device)["reported"]["value"])
    assert asked.at_the_answer == "MjEuNQ=="


@pytest.mark.parametrize(
    ("body", "answer", "ends"),
    [
        (READ, "reject", (400, "REJECTED")),
        ({**WRITE, "uri": TEMPERATURE}, "normal", (400, "METHOD_NOT_ALLOWED")),
    ],
)
def test_a_failure_is_told_so_too(server, key, device, ask, body, answer, ends):
    server.patch(key, device, answer=answer)
    answered = accepted(ask(body))
    assert (answered["status"], answered["error"]) == ends
    assert answered == told(server, key)["mine"]


@pytest.mark.parametrize(
    "prefer",
    [
        "wait=10",
        "wait=99",
        "WAIT=10",
        'wait="10"',
        "respond-async, wait=10",
        "wait = 10",
        "wait=10; of=me",
        "a=b,wait=10",
        "wait=10, wait=0",
    ],
)
def test_the_ways_to_say_so(ask, prefer):
    asked = ask(prefer=prefer)
    assert accepted(asked)["status"] == 200
    assert asked.headers["preference-applied"] == "wait=10"


@pytest.mark.parametrize(
    "prefer",
    [None, "", "wait=0", "wait", "wait=", "wait=soon", "wait=-1", "wait=1.5", "respond-async", "=", '"', "wait=²"],
)
def test_who_does_not_say_so_is_answered_as_before(server, key, ask, prefer):
    asked = ask(prefer=prefer)
    assert accepted(asked) is None
    assert "preference-applied" not in asked.headers
    assert told(server, key)["mine"]["status"] == 200


def test_who_gives_no_id_is_not_waited_for(ask):
    # Its device gets it behind the 202.
    assert list(ask(query="").content) == ["async-response-id"]


def test_a_server_that_needs_a_thread_for_it_does_not_wait(server, key, device):
    server.patch(key, device, answer="silent")
    path = f"/v2/device-requests/{device}?async-id=mine"
    answer = server.call(key, "POST", path, {"Prefer": "wait=10"}, json=READ)
    assert (answer.status_code, answer.json) == (202, {"async-response-id": "mine"})
    assert not server.services.log.awaited._waiting


def test_a_process_that_does_not_lead_does_not_wait(server, ask, monkeypatch):
    monkeypatch.setattr(server.services, "is_leader", lambda: False)
    assert accepted(ask()) is None


def test_one_that_is_there_already_is_answered_at_once(server, key, ask):
    first = accepted(ask())
    again = ask()
    assert accepted(again) is None
    assert "preference-applied" not in again.headers
    assert told(server, key) == {"mine": first}


REFUSED = [
    pytest.param({"device": "0" * 32}, READ, 404, id="unknown device"),
    pytest.param({}, {**READ, "uri": "/1/2/3"}, 400, id="unknown resource"),
    pytest.param({"query": "async-id=used"}, READ, 409, id="another request"),
    pytest.param({"more": {"if-match": "7"}}, WRITE, 412, id="another value"),
]


@pytest.mark.parametrize(("options", "body", "status"), REFUSED)
def test_a_refusal_comes_at_once_and_is_the_same(server, key, device, ask, options, body, status):
    server.place(key, device, "used", "GET", LEVEL)
    before = told(server, key)
    refused, plain = ask(body, **options), ask(body, prefer=None, **options)
    assert refused.status == plain.status == status
    assert refused.content | {"request_id": ""} == plain.content | {"request_id": ""}
    assert told(server, key) == before


def test_a_full_queue_is_told(server, key, device, ask):
    server.patch(key, device, online=False)
    for number in range(20):
        server.place(key, device, f"r{number}", "GET", TEMPERATURE)
    assert ask().content["reason"] == "QUEUE_IS_FULL"


class TestADeviceThatDoesNotAnswer:
    @pytest.fixture
    def silent(self, server, key, device):
        server.patch(key, device, answer="silent")
        return device

    def run(self, scene):
        asyncio.run(asyncio.wait_for(scene(), 60))

    def test_a_server_that_stops_sends_its_202_at_once(self, server, bridge, key, silent, monkeypatch):
        monkeypatch.setattr("mirror_server.web.asgi_bridge._LAST_SECONDS", 600)

        async def scene():
            asked = Asked(bridge, key, silent, READ)
            await asked.parked()
            await asyncio.to_thread(server.services.database.settle, 60)
            bridge.stop_waiting()
            await asked.done
            assert accepted(asked) is None

        self.run(scene)
        assert server.responses(key) == {}
        assert not server.services.log.awaited._waiting

    def test_a_server_that_stops_sends_no_202_before_it_is_on_disk(self, server, bridge, key, silent, monkeypatch):
        monkeypatch.setattr("mirror_server.web.asgi_bridge._LAST_SECONDS", 600)
        is_let_on, begun = threading.Event(), threading.Event()

        def hold_up(_session):
            begun.set()
            assert is_let_on.wait(60)

        async def scene():
            server.services.database.submit(hold_up)
            assert await asyncio.to_thread(begun.wait, 60)
            asked = Asked(bridge, key, silent, READ)
            await asked.parked()
            bridge.stop_waiting()
            await asked.parked()
            is_let_on.set()
            await asked.done
            assert accepted(asked) is None

        self.run(scene)
        assert server.responses(key) == {}

    def test_the_202_comes_without_an_answer_when_the_time_is_over(self, server, key, silent, monkeypatch):
        async def scene():
            asked = Asked(Bridge(server.app, max_body_bytes=1000, max_parked_polls=2), key, silent, READ)
            await asyncio.wait_for(asked.done, 60)
            assert accepted(asked) is None
            assert "preference-applied" not in asked.headers

        monkeypatch.setattr("mirror_server.views.device_requests.Deferred", with_short_time)
        self.run(scene)

    def test_its_end_by_the_clock_is_an_answer(self, server, bridge, key, silent):
        async def scene():
            asked = Asked(bridge, key, silent, READ)
            await asked.parked()
            await asyncio.to_thread(server.advance, key, 120)
            await asked.done
            assert (accepted(asked)["status"], accepted(asked)["error"]) == (504, "TIMEOUT")

        self.run(scene)

    def test_the_202_comes_without_an_answer_when_the_key_ended_meanwhile(self, server, bridge, key, silent):
        other = server.key()

        async def scene():
            asked = Asked(bridge, key, silent, READ)
            await asked.parked()
            await asyncio.to_thread(keys.renew, server.services.database, key.split("_")[1], 0, wall_time())
            await asyncio.to_thread(server.advance, other, 120)
            await asked.done
            assert accepted(asked) is None
            assert "preference-applied" not in asked.headers

        self.run(scene)

    def test_the_same_request_once_more_frees_both(self, server, bridge, key, silent):
        async def scene():
            first = Asked(bridge, key, silent, READ)
            await first.parked()
            again = Asked(bridge, key, silent, READ)
            await asyncio.gather(first.done, again.done)
            assert accepted(first) is accepted(again) is None

        self.run(scene)
        server.advance(key, 120)
        assert server.responses(key) == {"mine": (504, "TIMEOUT")}

    def test_of_a_client_that_is_gone_nothing_is_left(self, server, bridge, key, silent):
        async def scene():
            asked = Asked(bridge, key, silent, READ)
            await asked.parked()
            asked.is_gone.set()
            await asked.done
            assert asked.status is None

        self.run(scene)
        assert not server.services.log.awaited._waiting
        server.advance(key, 120)
        assert server.responses(key) == {"mine": (504, "TIMEOUT")}

    def test_two_applications_with_one_id_are_told_apart(self, server, bridge, key, other, silent):
        lively = server.add_device(key, "lively")

        async def scene():
            waits = Asked(bridge, key, silent, READ)
            await waits.parked()
            answered = Asked(bridge, other, lively, READ)
            await answered.done
            assert accepted(answered)["ep"] == lively
            assert not waits.done.done()
            bridge.stop_waiting()
            await waits.done

        self.run(scene)


def test_a_disk_that_takes_longer_than_the_wait_is_waited_for(server, bridge, key, device, monkeypatch):
    is_let_on, begun = threading.Event(), threading.Event()

    def hold_up(_session):
        begun.set()
        assert is_let_on.wait(60)

    server.services.database.submit(hold_up)
    assert begun.wait(60)
    monkeypatch.setattr("mirror_server.views.device_requests.Deferred", partial(with_short_time, is_over=is_let_on.set))

    async def scene():
        asked = Asked(bridge, key, device, READ)
        await asked.done
        assert accepted(asked) is None
        assert "preference-applied" not in asked.headers

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert server.responses(key) == {"mine": (200, None)}


def test_the_end_of_a_request_that_is_repeated_holds_up_nobody(server, key, device):
    """The repeat is told that the first has ended while it is itself not on disk."""
    parked = []
    environ = {PARK: parked.append}
    path = f"/v2/device-requests/{device}?async-id=mine"
    server.patch(key, device, online=False)
    server.call(key, "POST", path, {"Prefer": "wait=5"}, json=READ, environ_overrides=environ)
    is_let_on, begun = threading.Event(), threading.Event()

    def hold_up(_session):
        begun.set()
        assert is_let_on.wait(60)

    server.services.database.submit(hold_up)
    assert begun.wait(60)
    server.call(key, "POST", path, {"Prefer": "wait=5"}, json=READ, environ_overrides=environ, settled=False)
    server.services.log.awaited.tell(key.split("_")[1], "mine", None)
    (_, repeat) = parked
    assert repeat.future.done()
    answer = repeat.answer()
    assert isinstance(answer, Deferred)
    assert not answer.future.done()
    is_let_on.set()
    answer.future.result(60)
    assert answer.answer().json == {"async-response-id": "mine"}


def test_who_leaves_much_unread_is_told_no_more_than_that_it_is_accepted(server, bridge, key, device):
    application = key.split("_")[1]

    async def scene():
        await asyncio.to_thread(server.patch, key, device, answer="silent")
        asked = Asked(bridge, key, device, READ)
        await asked.parked()
        bridge._unread.add(application, 1 << 40)
        await asyncio.to_thread(server.advance, key, 120)
        await asked.parked()
        assert not server.services.log.awaited._waiting
        bridge._unread.remove(application, 1 << 40)
        await asyncio.wait_for(asked.done, 60)
        assert accepted(asked) is None

    asyncio.run(scene())
    assert server.responses(key) == {"mine": (504, "TIMEOUT")}


def with_short_time(future, timeout_seconds, *, expired, is_over=None, **options):
    """A wait that is over soon, and says so where it has to go on."""
    assert timeout_seconds == 10

    def over():
        answer = expired()
        assert isinstance(answer, Deferred) == (is_over is not None)
        if is_over is not None:
            is_over()
        return answer

    return Deferred(future, 0.01, expired=over, **options)


def test_what_is_not_stored_is_refused_and_not_waited_for(server, key, device, ask, monkeypatch):
    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(server.services.commands, "_accept", fail)
    assert ask().status == 500


def test_the_model_knows_no_other_member():
    with pytest.raises(ValidationError):
        DeviceRequestAccepted.model_validate({"async-response-id": "x", "answer": {}}, extra="forbid")


def test_a_request_that_is_parked_elsewhere_gives_no_answer_twice(server, key, device):
    """Whoever waits is told once, and what comes later finds nobody."""
    parked = []
    environ = {PARK: parked.append}
    path = f"/v2/device-requests/{device}?async-id=mine"
    server.call(key, "POST", path, {"Prefer": "wait=5"}, json=READ, environ_overrides=environ)
    (deferred,) = parked
    entry = deferred.future.result(60)
    server.services.log.awaited.tell(key, "mine", None)
    assert deferred.future.result() is entry
