"""The example application, with both channels, over real sockets to a server in this process.

Source: specification 5.2 and 6.
"""

import httpx
import ports
import pytest
from click.testing import CliRunner
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk import MirrorClient, example_app
from mirror_sdk.errors import AccessDenied, BadRequest, ConfigError
from mirror_sdk.example_app import WebhookAddress, listening, read_webhook_address
from mirror_server.service.keys import Scope

CALLBACK, POLL = "/v2/notification/callback", "/v2/notification/pull?noWait=true"


@pytest.fixture
def key(mirror):
    return mirror.new_key()


@pytest.fixture
def own(address, key):
    """A client with the key of the application."""
    with MirrorClient(address, key) as client:
        yield client


@pytest.fixture
def polling(address, key):
    return {"API_HOST": address, "API_KEY": key, "LONG_POLLING_ENABLED": "true"}


@pytest.fixture
def pushed(address, key):
    return {"API_HOST": address, "API_KEY": key, "APP_HOST": f"http://127.0.0.1:{ports.free_port()}"}


def next_observation(events):
    return next((event.device_id, event.path, event.value.python) for event in events if event.value is not None)


@pytest.fixture
def status_of(address):
    """Return the status of a request for a path."""

    def status_of(path, key):
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.get(address + path, headers=headers, trust_env=False).status_code

    return status_of


@pytest.mark.parametrize("channel", ["polling", "pushed"])
def test_it_receives_reports_and_removes_its_subscriptions_at_the_end(
    channel, request, own, simulator, device_id, status_of, key
):
    with listening(request.getfixturevalue(channel)) as events:
        assert next_observation(events) == (device_id, TEMPERATURE, 21.5)
        simulator.set_value(device_id, TEMPERATURE, 25)
        assert next_observation(events) == (device_id, TEMPERATURE, 25.0)
        assert own.subscriptions.list(device_id) == [TEMPERATURE]
        assert len(own.subscriptions.rules.list()) == 1
    assert own.subscriptions.rules.list() == []
    assert own.subscriptions.list(device_id) == []
    assert status_of(CALLBACK, key) == 404


def test_existing_rules_of_the_key_remain(polling, own, device_id):
    rule = {"endpoint_type": "Light", "resource_path": [SWITCH]}
    own.subscriptions.rules.replace([rule], apply_now=True)
    # Otherwise it could arrive after the application has subscribed.
    assert next_observation(own.events(after=0))[1:] == (SWITCH, False)
    with listening(polling) as events:
        assert next_observation(events)[1:] == (TEMPERATURE, 21.5)
        assert len(own.subscriptions.rules.list()) == 2
        assert sorted(own.subscriptions.list(device_id)) == [TEMPERATURE, SWITCH]
    assert [remaining.resource_path for remaining in own.subscriptions.rules.list()] == [[SWITCH]]
    assert own.subscriptions.list(device_id) == [SWITCH]
    # A resource of another rule stays subscribed.
    own.subscriptions.rules.replace([{"resource_path": ["/3303/*"], "endpoint_type": "Light"}], apply_now=True)
    with listening(polling):
        pass
    assert TEMPERATURE in own.subscriptions.list(device_id)


def test_leftovers_of_a_killed_run_are_removed_by_the_next_one(polling, own, device_id):
    own.subscriptions.rules.replace([{"endpoint_name": "*", "resource_path": ["/3303/*"]}], apply_now=True)

    def fail():
        # An empty variable counts as missing.
        with listening(polling | {"DEVICE_ID": "", "RESOURCE": ""}):
            assert len(own.subscriptions.rules.list()) == 1
            raise KeyboardInterrupt

    # Also if this one fails.
    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (own.subscriptions.rules.list(), own.subscriptions.list(device_id)) == ([], [])


def test_webhook_replaces_an_existing_poll_channel(pushed, own, device_id, status_of, key, capsys):
    assert status_of(POLL, key) == 204
    with listening(pushed) as events:
        assert next_observation(events) == (device_id, TEMPERATURE, 21.5)
    assert capsys.readouterr().out == "ended the poll channel that this key had\nlistening by webhook\n"


def test_unreachable_url_leaves_no_rule(pushed, own, device_id, status_of, key):
    assert status_of(POLL, key) == 204
    unreachable = pushed | {"APP_HOST": "http://127.0.0.1:1", "APP_LISTEN_PORT": pushed["APP_HOST"].rpartition(":")[2]}
    with pytest.raises(BadRequest), listening(unreachable):
        pass
    assert own.subscriptions.rules.list() == []


def test_a_key_that_may_not_subscribe_leaves_no_webhook(pushed, mirror, status_of):
    reader = mirror.new_key(Scope.READ)
    with pytest.raises(AccessDenied), listening(pushed | {"API_KEY": reader}):
        pass
    assert status_of(CALLBACK, reader) == 404


LISTEN = ("APP_HOST", "APP_LISTEN_PORT", "APP_LISTEN_HOST")


COMMAND_LINES = [
    ([" http://10.0.0.7:8090/ "], WebhookAddress("http://10.0.0.7:8090/callback", "127.0.0.1", 8090)),
    (["https://a.org:444/x", "9000", "0.0.0.0"], WebhookAddress("https://a.org:444/x/callback", "0.0.0.0", 9000)),
    (["http://app:80", "", ""], WebhookAddress("http://app/callback", "127.0.0.1", 80)),
]


@pytest.mark.parametrize(("values", "expected"), COMMAND_LINES)
def test_where_it_is_called_and_where_it_listens(values, expected):
    assert read_webhook_address(dict(zip(LISTEN, values, strict=False))) == expected


WRONG_ADDRESSES = [
    ({}, ["APP_HOST is missing"]),
    ({"APP_HOST": "", "LONG_POLLING_ENABLED": ""}, ["APP_HOST is missing"]),
    ({"APP_HOST": "app.example.com"}, ["APP_HOST='https://app.example.com'", "APP_LISTEN_PORT"]),
    ({"APP_HOST": "ftp://app:1"}, ["APP_HOST", "is not an http address"]),
    ({"APP_HOST": "http://:8090"}, ["APP_HOST", "is not an http address"]),
    ({"APP_HOST": "http://app:99999"}, ["APP_HOST", "is not an http address"]),
    ({"APP_HOST": "http://me@app:1"}, ["APP_HOST", "user name"]),
    ({"APP_HOST": "http://app:1?a=b"}, ["APP_HOST", "query"]),
    ({"APP_HOST": "https://app.example.com"}, ["APP_HOST", "APP_LISTEN_PORT"]),
    ({"APP_HOST": "https://app.example.com", "APP_LISTEN_PORT": "x"}, ["APP_LISTEN_PORT", "65535"]),
    ({"APP_HOST": "https://app.example.com", "APP_LISTEN_PORT": "65536"}, ["APP_LISTEN_PORT"]),
]


@pytest.mark.parametrize(("variables", "words"), WRONG_ADDRESSES)
def test_invalid_address_raises_with_the_variable(variables, words):
    with pytest.raises(ConfigError) as failure:
        read_webhook_address(variables)
    assert all(word in str(failure.value) for word in words)
    assert "\n" not in str(failure.value)


def test_invalid_rule_raises_before_anything_is_changed(polling, own):
    for variables in ({"RESOURCE": "3303"}, {"DEVICE_ID": "a*b"}, {"RESOURCE": "/33*/0"}):
        with pytest.raises(ConfigError, match="are not a valid rule"), listening(polling | variables):
            pass
    assert own.subscriptions.rules.list() == []


def test_the_help_names_every_variable():
    output = CliRunner().invoke(example_app.main, ["--help"]).output
    variables = ("API_KEY", "API_HOST", "LONG_POLLING_ENABLED", "APP_HOST", "APP_LISTEN_HOST", "APP_LISTEN_PORT")
    assert [name for name in (*variables, "DEVICE_ID", "RESOURCE") if f"\n  {name} " not in output] == []
