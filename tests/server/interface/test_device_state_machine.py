"""One device with any sequence of requests, outages, time and restarts. Source: specification 3.1, 6."""

import base64
import itertools

from device_resources import control
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_server.hooks import Extensions
from mirror_server.store import logs
from mirror_server.store.maintenance import violations

LEVEL, SERIAL = "/3311/0/5851", "/3/0/2"
PATHS = [LEVEL, SERIAL]
EXPIRED = (429, "REQUEST_EXPIRED")
EXPIRIES = st.sampled_from([None, 5, 60, 600])
LONGER_THAN_ANY_COMMAND_WAITS = 3 * 3600


class OneDevice(RuleBasedStateMachine):
    """Two applications write to a device and read from it; every value is written once."""

    def __init__(self, server_class, folder):
        super().__init__()
        self.server = server_class(folder)
        self.numbers = itertools.count(1)
        self.writes = {path: [] for path in PATHS}
        self.accepted = {}
        self.past_values = {path: set() for path in PATHS}

    @initialize()
    def begin(self):
        self.keys = [self.server.key(), self.server.key()]
        self.device = self.server.add_device(self.keys[0], "d", control(LEVEL), {"path": SERIAL, "value": "0"})
        self.accepted = {key: [] for key in self.keys}

    @rule(writer=st.integers(0, 1), path=st.sampled_from(PATHS), expiry=EXPIRIES, retry=st.integers(0, 2))
    def write(self, writer, path, expiry, retry):
        number = next(self.numbers)
        payload = base64.b64encode(str(number).encode()).decode()
        if self.submit(writer, number, {"method": "PUT", "uri": path, "payload-b64": payload}, expiry, retry):
            self.writes[path].append((self.keys[writer], str(number)))

    @rule(reader=st.integers(0, 1), path=st.sampled_from(PATHS), expiry=EXPIRIES)
    def read(self, reader, path, expiry):
        self.submit(reader, next(self.numbers), {"method": "GET", "uri": path}, expiry, 0)

    def submit(self, application, number, body, expiry, retry):
        key = self.keys[application]
        url = f"/v2/device-requests/{self.device}?async-id={number}&retry={retry}"
        body = body if expiry is None else body | {"expiry_seconds": expiry}
        response = self.server.call(key, "POST", url, json=body)
        if response.status_code == 429:
            assert response.json["reason"] == "QUEUE_IS_FULL"
            return False
        assert response.json == {"async-response-id": str(number)}
        self.accepted[key].append(str(number))
        return True

    @rule(
        online=st.booleans(),
        answer=st.sampled_from(["normal", "normal", "reject", "silent"]),
        latency_seconds=st.sampled_from([0, 0, 7, 90]),
    )
    def behave(self, **behavior):
        self.server.patch(self.keys[0], self.device, **behavior)

    @rule(subscriber=st.integers(0, 1), method=st.sampled_from(["PUT", "DELETE"]))
    def subscribe(self, subscriber, method):
        self.server.call(self.keys[subscriber], method, f"/v2/subscriptions/{self.device}{LEVEL}")

    @rule(method=st.sampled_from(["POST", "PUT", "DELETE"]))
    def register(self, method):
        device = self.server.devices.device(self.device)
        if device.online and (device.registered or method == "POST"):
            self.server.registration(self.keys[0], self.device, method)

    @rule(seconds=st.sampled_from([1, 5, 30, 120, 900, 9000]))
    def let_time_pass(self, seconds):
        self.server.advance(self.keys[0], seconds)

    @rule()
    def restart(self):
        self.server.restart()

    def device_values(self):
        return {path: self.server.value_of_device(self.device, path) for path in PATHS}

    @invariant()
    def a_desired_value_is_that_of_the_newest_write_and_pending_until_its_response(self):
        responses = {key: self.server.responses(key) for key in self.keys}
        values = self.device_values()
        for path, writes in self.writes.items():
            desired = self.server.resource(self.keys[0], self.device, path)["desired"]
            if not writes:
                assert desired == {}
                continue
            key, number = writes[-1]
            assert base64.b64decode(desired["value"]).decode() == number
            outcome = responses[key].get(number)
            assert desired["status"] == status_after(outcome), (number, outcome)
            assert ("status_updated_at" in desired) == (outcome is not None)
            if desired["status"] == DesiredStatus.SUCCESS:
                assert values[path] == number

    @invariant()
    def undelivered_commands_never_reached_the_device(self):
        values = self.device_values()
        for path, writes in self.writes.items():
            self.past_values[path].add(values[path])
            expired = {number for key, number in writes if self.server.responses(key).get(number) == EXPIRED}
            assert not expired & self.past_values[path]

    @invariant()
    def logs_have_no_gaps_and_only_responses_to_accepted_requests(self):
        for key in self.keys:
            assert set(self.server.responses(key)) <= set(self.accepted[key])
            with self.server.services.database.read() as session:
                seqs = [seq for seq, *_ in logs.read(session, key.split("_")[1], 0, 10_000, 10**9)[1]]
            assert seqs == list(range(1, len(seqs) + 1))

    @invariant()
    def the_database_is_sound(self):
        with self.server.services.database.read() as session:
            assert list(violations(session, Extensions().storages)) == []

    def teardown(self):
        if self.accepted:
            self.server.advance(self.keys[0], LONGER_THAN_ANY_COMMAND_WAITS)
            for key in self.keys:
                assert sorted(self.server.responses(key)) == sorted(self.accepted[key])
            self.a_desired_value_is_that_of_the_newest_write_and_pending_until_its_response()
        self.server.services.close()


def status_after(outcome):
    if outcome is None:
        return DesiredStatus.PENDING
    return DesiredStatus.SUCCESS if outcome == (200, None) else DesiredStatus.FAILURE


def test_every_accepted_request_gets_one_response_that_matches_the_mirror(server, tmp_path_factory):
    run_state_machine_as_test(
        lambda: OneDevice(type(server), tmp_path_factory.mktemp("machine")),
        settings=settings(
            max_examples=4, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
