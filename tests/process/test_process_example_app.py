"""The example application against a real server, with both channels."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from ports import free_port
from process_server import PATIENCE_SECONDS, Application, ServerProcess, child_environment, wait_until
from resource_paths import TEMPERATURE

pytestmark = pytest.mark.process


@pytest.fixture
def app_environment(shared_server: ServerProcess, application: Application) -> Callable[..., dict[str, str]]:
    def make(**variables: str) -> dict[str, str]:
        environment = {"API_HOST": shared_server.url, "API_KEY": application.key, "PYTHONUNBUFFERED": "1"}
        return child_environment(**environment, **variables)

    return make


def start(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mirror_sdk.example_app"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_example_prints_reports_of_the_chosen_resources_until_it_is_stopped(app_environment, application):
    resource = {"value": "20", "observable": True}
    mine = application.add_device("mine", {"path": TEMPERATURE, **resource}, {"path": "/3304/0/5700", **resource})
    application.add_device("other", {"path": TEMPERATURE, **resource})
    address = f"http://127.0.0.1:{free_port()}"
    settings = {"DEVICE_ID": mine, "RESOURCE": "/3303/*, /3300/0/5700", "APP_HOST": address}
    with start(app_environment(**settings)) as app:
        assert app.stdout is not None
        assert app.stdout.readline() == "listening by webhook\n"
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


def test_missing_input_is_reported_in_one_line(app_environment):
    with start(app_environment()) as app:
        assert app.wait(PATIENCE_SECONDS) == 1
        assert app.stderr is not None
        (line,) = app.stderr.read().splitlines()
    assert "APP_HOST" in line
