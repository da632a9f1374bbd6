"""Devices can be addressed by id, endpoint name, or an object that has an id. Ambiguous names are errors."""

import httpx
import pytest
from client_test_data import RESOURCES, SENSOR, URL
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk import AccessDenied, AmbiguousName, MirrorClient, NotFound, Simulator, UnknownDevice
from mirror_sdk.device_lookup import NameCache
from mirror_server.service.keys import Scope

CALLS = {
    "get_device": lambda c, d: c.get_device(d).device_id,
    "get_directory_device": lambda c, d: c.devices.get(d).id,
    "get_connection": lambda c, d: c.devices.connection(d).device_id,
    "list_resources": lambda c, d: sorted(one.uri for one in c.devices.resources(d)),
    "explain": lambda c, d: c.devices.explain(d, TEMPERATURE).title,
    "read_value": lambda c, d: c.read_value(d, TEMPERATURE),
    "write_value": lambda c, d: c.write_value(d, SWITCH, True),
    "execute": lambda c, d: c.execute(d, "/3/0/4"),
    "list_device_requests": lambda c, d: [one for one in c.requests.list(d) if one.method == "PUT"],
    "resume_request": lambda c, d: c.requests.resume("x", d, TEMPERATURE).device_id,
    "subscribe": lambda c, d: (c.subscribe(d, TEMPERATURE), c.subscriptions.is_active(d, TEMPERATURE)),
    "subscription_state": lambda c, d: c.subscriptions.state(d, TEMPERATURE),
    "unsubscribe": lambda c, d: (c.unsubscribe(d, TEMPERATURE), c.subscriptions.list(d)),
    "delete_subscriptions": lambda c, d: (c.subscriptions.delete_all(d), c.subscriptions.list(d)),
    "state_frame": lambda c, d: c.state_frame([d])["device_id"].unique().tolist(),
    "snapshot": lambda c, d: c.fleet.snapshot([d])["device_id"].unique().tolist(),
    "plan": lambda c, d: c.plan([(d, SWITCH, True)]).frame["device_id"].tolist(),
}


@pytest.fixture
def light(simulator):
    simulator.add_device("station-01", RESOURCES)
    return simulator.add_device("light-01", RESOURCES, endpoint_type="Light")


def test_each_method_accepts_ids_and_names(client, light):
    spellings = ("light-01", client.devices.get(light), client.get_device(light))
    for name, call in CALLS.items():
        by_id = call(client, light)
        for spelling in (*spellings, client.requests.begin_read(light, TEMPERATURE)):
            assert call(client, spelling) == by_id, (name, spelling)
    for one in spellings:
        with pytest.raises(TypeError, match=r"devices takes a list of device ids; write devices=\["):
            client.state_frame(one)


def test_a_failed_request_names_the_device_as_its_caller_did(client, light):
    for device, words in (("light-01", f"of device light-01 ({light})"), (light, f"of device {light}")):
        request = client.requests.begin_write(device, TEMPERATURE, 1.0, allow_read_only=True)
        resumed = client.requests.resume(request.async_id, device, TEMPERATURE, method="PUT")
        for failure in (request.exception(), resumed.exception(), request.wait_timeout(1)):
            assert words in str(failure)


def test_a_name_may_be_any_text(client, simulator):
    simulator.add_device("another", RESOURCES)
    for name in ("Küche, links", "100%", "a&b=c#d?e", "..", "/3303/0/5700", " a ", "x" * 64, "e\u0301"):
        device_id = simulator.add_device(name, RESOURCES)
        assert client.get_device(name).device_id == device_id
        assert client.state_frame([name, "another"])["device_id"].nunique() == 2
        simulator.set_value(name, TEMPERATURE, 3.5)
        assert client.read_value(name, TEMPERATURE) == 3.5


class Directory:
    """A service between client and mirror that counts requests and changes the list of devices."""

    def __init__(self):
        self.requests = []
        self.longest = 0
        self.listed = {}

    def __call__(self, request, respond):
        path = request.url.path.rstrip("/")
        self.longest = max(self.longest, len(str(request.url)))
        self.requests.append((request.method, path))
        name = request.url.params.get("endpoint_name__eq")
        if path == "/v3/devices" and name in self.listed and "id__eq" not in request.url.params:
            return httpx.Response(200, json={"data": self.listed[name], "has_more": False, "limit": 50, "order": "ASC"})
        return respond

    def questions(self):
        return sum(path == "/v3/devices" for _, path in self.requests)


def listed(device_id, name, state="registered"):
    at = "2026-01-05T08:00:00.000Z"
    return {"id": device_id, "endpoint_name": name, "state": state, "created_at": at, "updated_at": at}


@pytest.fixture
def directory():
    return Directory()


@pytest.fixture
def named(client_over, directory):
    return client_over(directory)


def test_name_is_requested_once_per_interval_and_id_never(named, directory, light):
    assert named.get_device(light).device_id == light
    assert directory.questions() == 0
    seconds = 0.0
    getattr(named, "_wrapped", named)._session.names = NameCache(lambda: seconds)
    for seconds, questions in ((0.0, 1), (29.0, 1), (31.0, 2)):  # noqa: B007 - the clock looks at it
        assert named.get_device("light-01").device_id == light
        assert named.devices.resources("light-01")
        assert directory.questions() == questions


def test_many_names_are_one_question_or_few_where_they_are_long(named, directory, simulator):
    names = [f"lamp-{number}" for number in range(10)]
    ids = [simulator.add_device(name, [SENSOR]) for name in names]
    assert named.fleet.snapshot(names)["device_id"].tolist() == sorted(ids)
    assert directory.questions() == 1
    assert named.plan([(name, TEMPERATURE, 1.0) for name in names]).frame["device_id"].tolist() == ids
    names = [f"{number:02}{'ü' * 61}," if number % 10 == 5 else f"{number:02}{'語' * 62}" for number in range(20)]
    ids = [simulator.add_device(name, [SENSOR]) for name in names]
    assert named.state_frame(names)["device_id"].tolist() == ids
    assert directory.longest < 4000
    assert directory.questions() < len(names) // 2


def test_a_write_never_goes_to_the_device_that_had_the_name_before(named, directory, simulator, light):
    other = simulator.add_device("light-02", RESOURCES)
    assert named.get_device("light-01").device_id == light
    directory.listed["light-01"] = [listed(light, "light-01", "deregistered"), listed(other, "light-01")]
    names = getattr(named, "_wrapped", named)._session.names
    for act in (
        lambda: named.requests.begin_write("light-01", SWITCH, True),
        lambda: named.requests.begin_execute("light-01", "/3/0/4"),
        lambda: named.requests.begin_read("light-01", TEMPERATURE),
        lambda: named.requests.resume("x", "light-01", TEMPERATURE),
    ):
        names.keep({"light-01": light})
        assert act().device_id == other
    names.keep({"light-01": light})
    named.subscribe("light-01", TEMPERATURE)
    assert (named.subscriptions.list(other), named.subscriptions.list(light)) == ([TEMPERATURE], [])
    assert named.plan([("light-01", SWITCH, True)]).frame["device_id"].tolist() == [other]


def test_name_of_a_removed_device_is_resolved_again(named, directory, simulator, light):
    directory.listed["light-01"] = [listed("f" * 32, "light-01")]
    with pytest.raises(NotFound):
        named.get_device("light-01")
    assert directory.questions() == 3  # the name, the name again, and whether another text was meant
    del directory.listed["light-01"]
    assert named.get_device("light-01").device_id == light


def test_duplicate_name_selects_the_registered_device_and_is_otherwise_ambiguous(named, directory, light):
    directory.listed["light-01"] = [listed("e" * 32, "light-01", "deregistered"), listed(light, "light-01")]
    assert named.get_device("light-01").device_id == light
    for states in (("registered", "registered"), ("deregistered", "deregistered")):
        directory.listed["twin"] = [listed(light, "twin", states[0]), listed("e" * 32, "twin", states[1])]
        with pytest.raises(AmbiguousName) as caught:
            named.requests.begin_write("twin", SWITCH, True)
        assert isinstance(caught.value, ValueError)
        assert f"{light} ({states[0]})" in str(caught.value)
        assert f"{'e' * 32} ({states[1]})" in str(caught.value)
        rejected = named.plan([("twin", SWITCH, True)]).frame.iloc[0]
        assert (rejected["decision"], rejected["check"]) == ("refuse", "unknown_device")
        assert "2 devices have the endpoint name 'twin'" in rejected["reason"]
    assert "POST" not in {method for method, _ in directory.requests}


def test_unknown_name_raises_with_similar_names(named, directory, light):
    for call in (
        lambda: named.get_device("ligth-01"),
        lambda: named.requests.begin_write("ligth-01", SWITCH, True),
        lambda: named.fleet.snapshot(["light-01", "ligth-01"]),
        lambda: named.watch(print, devices=["ligth-01"]),
    ):
        with pytest.raises(UnknownDevice) as caught:
            call()
        assert isinstance(caught.value, NotFound)
        message = "no device has the id or endpoint name 'ligth-01'; similar: light-01, station-01"
        assert str(caught.value) == f"404 DEVICE_NOT_FOUND: {message}"
    assert named.plan([("ligth-01", SWITCH, True)]).frame["reason"].tolist() == [message]
    with pytest.raises(UnknownDevice, match=r"'LIGHT-01'; similar: light-01"):
        named.get_device("LIGHT-01")
    assert "POST" not in {method for method, _ in directory.requests}
    # Control characters are escaped.
    directory.listed[None] = [listed("f" * 32, "li\u202eght-01")]
    with pytest.raises(UnknownDevice, match=r"similar: li\\u202eght-01"):
        named.get_device("lihgt-01")


def test_many_unknown_names_raise_with_similar_names_of_the_first_ones(named, light):
    wrong = [f"ligth-{number:02}" for number in range(400)]
    with pytest.raises(UnknownDevice) as caught:
        named.fleet.snapshot(wrong)
    assert str(caught.value).count("similar: light-01") == 10
    assert str(caught.value).endswith("; and 390 more of 400 match no device")
    reasons = named.plan([(name, SWITCH, True) for name in wrong]).frame["reason"].tolist()
    assert sum("similar: light-01" in reason for reason in reasons) == 10
    assert "no device has the id or endpoint name 'ligth-399'" in reasons[399]


def test_name_equal_to_an_id_does_not_replace_that_device(named, directory, simulator, light):
    spoofed = simulator.add_device(light, RESOURCES)
    assert named.get_device(light).device_id == light
    named.write_value(light, SWITCH, True)
    assert named.get_device(spoofed)[SWITCH].desired is None
    unknown_id = "0" * 32
    pretender = simulator.add_device(unknown_id, RESOURCES)
    for call in (lambda: named.get_device(unknown_id), lambda: named.requests.begin_write(unknown_id, SWITCH, True)):
        with pytest.raises(UnknownDevice, match=f"as an id, so pass the id .* with this endpoint name: {pretender}"):
            call()


def test_ids_of_another_form_are_ids_and_go_before_names(named, directory, light):
    """Request the ids of the service once, since they may have another form."""
    hijacker = listed("dev-2", "dev-1")

    def respond(request, response):
        directory.requests.append((request.method, request.url.path))
        params = request.url.params
        if request.url.path.endswith("/echo"):
            body = {"device_id": request.url.path.split("/")[3], "created_at": hijacker["created_at"], "resources": []}
            return httpx.Response(200, json=body)
        found = [hijacker] if params.get("endpoint_name__eq") == "dev-1" else []
        found += [listed("dev-1", "a")] if params.get("id__eq") == "dev-1" else []
        return httpx.Response(200, json={"data": found, "has_more": False, "limit": 50, "order": "ASC"})

    directory.__class__ = type("Other", (Directory,), {"__call__": staticmethod(respond)})
    assert [named.get_device("dev-1").device_id for _ in range(3)] == ["dev-1"] * 3
    assert directory.questions() == 2


@pytest.mark.parametrize("status", [400, 403, 404])
def test_without_directory_access_a_text_is_an_id(client_over, light, status):
    def respond(request, response):
        if request.url.path.rstrip("/") == "/v3/devices":
            return httpx.Response(status, json={"code": status, "type": "x", "message": "no directory for you"})
        return httpx.Response(202, json={}) if "dev-1" in request.url.path else response

    client = client_over(respond)
    assert client.requests.begin_write("dev-1", SWITCH, True).device_id == "dev-1"
    words = "looking up 'light-01' in the directory requires this scope" if status == 403 else "404"
    with pytest.raises(AccessDenied if status == 403 else NotFound, match=words):
        client.get_device("light-01")


def test_simulator_resolves_names_with_its_own_key(mirror, light):
    with MirrorClient(URL, mirror.new_key(Scope.ADMIN), transport=mirror.transport) as operator:
        simulator = Simulator(operator)
        listed_device = next(one for one in simulator.list_devices() if one.id == light)
        for spelling in ("light-01", listed_device, light):
            simulator.set_online(spelling, True)
            simulator.set_response_mode(spelling, "normal")
            simulator.set_latency_seconds(spelling, 0)
            simulator.update_registration(spelling)
        simulator.remove_resource("light-01", TEMPERATURE)
        simulator.deregister("light-01")
        with pytest.raises(UnknownDevice, match="similar: light-01"):
            simulator.register("light-1")
