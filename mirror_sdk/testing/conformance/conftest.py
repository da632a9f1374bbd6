"""Fixtures for the server under test and its devices."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from mirror_sdk._client import MirrorClient
from mirror_sdk.config import ClientSettings
from mirror_sdk.errors import AccessDenied, APIError, ConfigError
from mirror_sdk.testing.conformance.service import Service
from mirror_sdk.testing.conformance.simulated_devices import SimulatedDevices
from mirror_sdk.webhook import WebhookReceiver
from mirror_sdk.wire.routes import CALLBACK, CURSOR_HEADER, PULL


@pytest.fixture(scope="session")
def service(pytestconfig: pytest.Config) -> Iterator[Service]:
    """The server under test, with a poll channel for its access key."""
    try:
        settings = ClientSettings.load(pytestconfig.getoption("--mirror-url"), pytestconfig.getoption("--mirror-key"))
    except ConfigError as exc:
        pytest.exit(f"{exc}, or use --mirror-url and --mirror-key", returncode=pytest.ExitCode.USAGE_ERROR)
    service = Service(settings.base_url, settings.api_key.get_secret_value())
    with service.http:
        try:
            # The server rejects polls while the key has a webhook, such as one from an earlier run.
            service.http.delete(CALLBACK)
            response = service.http.get(PULL, params={"hold": 0})
        except httpx.TransportError as exc:
            pytest.exit(f"no response from {settings.base_url} ({exc})", returncode=pytest.ExitCode.USAGE_ERROR)
        if response.status_code in {401, 403}:
            pytest.exit(f"{settings.base_url} rejects the key: {response.text}", pytest.ExitCode.USAGE_ERROR)
        yield service


@pytest.fixture(scope="session")
def found_simulator(service: Service) -> Iterator[SimulatedDevices | str]:
    """The simulator, or the reason why it is not available."""
    with MirrorClient(service.url, service.key) as client:
        simulator = SimulatedDevices(client)
        try:
            simulator.get_clock()
            yield simulator
        except AccessDenied:
            yield "the key lacks the scope admin, which controls the server's simulated devices"
        except APIError:
            yield "the server has no simulator (/sim/v1), so no test can control a device"


@pytest.fixture
def simulator(found_simulator: SimulatedDevices | str) -> SimulatedDevices:
    """The simulator of the server. The test is skipped if it is not available."""
    if isinstance(found_simulator, str):
        pytest.skip(found_simulator)
    return found_simulator


@pytest.fixture
def manual_simulator(simulator: SimulatedDevices) -> SimulatedDevices:
    """The simulator of a server with a manual clock. The test is skipped if it is not available."""
    if not simulator.has_manual_clock():
        pytest.skip("the clock of the server runs by itself (no --clock manual)")
    return simulator


@pytest.fixture
def light(simulator: SimulatedDevices) -> Iterator[str]:
    """A simulated device for a single test."""
    device_id = simulator.add()
    yield device_id
    # The test may have deregistered or disconnected the device.
    with suppress(APIError):
        simulator.deregister(device_id)


@pytest.fixture(scope="session")
def device_id(service: Service, pytestconfig: pytest.Config, found_simulator: SimulatedDevices | str) -> str:
    """A registered device that may be read. The test is skipped if there is no such device."""
    named: str | None = pytestconfig.getoption("--mirror-device")
    if named:
        return named
    if isinstance(found_simulator, SimulatedDevices):
        return found_simulator.add()
    listed = service.json("GET", "/v3/devices", params={"state__eq": "registered"})["data"]
    if not listed:
        pytest.skip("the directory has no registered device, and none was named with --mirror-device")
    # Awake devices are preferred, because sleeping devices respond late.
    first: str = min(listed, key=lambda device: bool(device.get("queue_mode")))["id"]
    return first


@pytest.fixture
def observable_path(service: Service, device_id: str) -> str:
    """An observable resource of the device. The test is skipped if there is no such resource."""
    listed = service.json("GET", f"/v2/endpoints/{device_id}")
    found = [resource["uri"] for resource in listed if resource["obs"]]
    if not found:
        pytest.skip(f"the device {device_id} has no resource that can be observed")
    path: str = found[0]
    return path


@pytest.fixture
def log(service: Service) -> Service:
    """The server under test. The test is skipped if the server has no notification log."""
    if CURSOR_HEADER not in service.read_log("latest").headers:
        pytest.skip(f"the server has no notification log (no {CURSOR_HEADER} in a poll with after=latest)")
    return service


@pytest.fixture
def loopback(service: Service) -> Service:
    """The server under test.

    The test is skipped unless the server runs on this machine, where it can call a webhook.
    """
    host = httpx.URL(service.url).host
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    if not is_here:
        pytest.skip(f"{host} is another machine, which cannot call a webhook on this one")
    with WebhookReceiver() as receiver:
        response = service.call("PUT", CALLBACK, json={"url": receiver.url, "headers": dict(receiver.headers)})
        if response.status_code == 400 and any(field["name"] == "url" for field in response.json()["fields"]):
            pytest.skip("the server calls nothing on its own machine (no --allow-callbacks-to 127.0.0.0/8)")
        service.http.delete(CALLBACK)
    return service
