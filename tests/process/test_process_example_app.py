"""The example application against a real server, by both channels."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from ports import free_port
from process_server import PATIENCE_SECONDS, Application, ServerProcess, child_environment, wait_until

from mirror_sdk.example_app import presubscriptions

pytestmark = pytest.mark.process

TEMPERATURE = "/3303/0/5700"


@pytest.fixture
def app_environment(shared_server: ServerProcess, application: Application) -> Callable[..., dict[str, str]]:
    def make(**variables: str) -> dict[str, str]:
        given = {"API_HOST": shared_server.url, "API_KEY": application.key, "PYTHONUNBUFFERED": "1"}
        return child_environment(**given, **variables)

    return make


def start(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mirror_sdk.example_app"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("channel", ["long polling", "webhook"])
def test_it_tells_what_the_chosen_resources_report(
    app_environment: Callable[..., dict[str, str]], application: Application, channel: str
) -> None:
    resource = {"value": "20", "observable": True}
    mine = application.add_device(
        f"mine-{channel}", {"path": TEMPERATURE, **resource}, {"path": "/3304/0/5700", **resource}
    )
    application.add_device(f"other-{channel}", {"path": TEMPERATURE, **resource})
    settings = {"DEVICE_ID": mine, "RESOURCE": "/3303/*, /3300/0/5700"}
    if channel == "webhook":
        settings |= {"APP_HOST": f"http://127.0.0.1:{free_port()}"}
    else:
        settings |= {"LONG_POLLING_ENABLED": "TRUE"}
    with start(app_environment(**settings)) as app:
        assert app.stdout is not None
        assert app.stdout.readline() == f"listening by {channel}\n"
        wait_until(lambda: application.resource(mine, TEMPERATURE)["subscribed"], "the subscription")
        assert app.stdout.readline().split()[2:] == [mine, TEMPERATURE, "20.0"]
        application.http.put(f"/sim/v1/devices/{mine}/resources{TEMPERATURE}", json={"value": "25"})
        assert app.stdout.readline().split()[2:] == [mine, TEMPERATURE, "25.0"]
        app.send_signal(signal.SIGTERM)
        assert app.stdout.readline() == "stopped\n"
        assert app.wait(PATIENCE_SECONDS) == 0
        assert app.stderr is not None
        assert app.stderr.read() == ""
    assert application.http.get("/v2/notification/callback").status_code == 404


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({}, "APP_HOST"),
        ({"APP_HOST": "http://app"}, "port"),
        ({"LONG_POLLING_ENABLED": "maybe"}, "LONG_POLLING_ENABLED"),
    ],
)
def test_what_is_missing_or_wrong_is_told_in_a_line(
    app_environment: Callable[..., dict[str, str]], settings: dict[str, str], word: str
) -> None:
    with start(app_environment(**settings)) as app:
        assert app.wait(PATIENCE_SECONDS) == 1
        assert app.stderr is not None
        (line,) = app.stderr.read().splitlines()
    assert word in line


def test_devices_and_resources_are_lists() -> None:
    assert presubscriptions("a, b", "/1/*,/2/0/0") == [
        {"endpoint_name": "a", "resource_path": ["/1/*", "/2/0/0"]},
        {"endpoint_name": "b", "resource_path": ["/1/*", "/2/0/0"]},
    ]
    assert presubscriptions("*", "/3303/*") == [{"endpoint_name": "*", "resource_path": ["/3303/*"]}]
