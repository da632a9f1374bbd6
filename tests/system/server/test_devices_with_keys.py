"""Devices that authenticate with a key: their names, and changes of keys by an operator."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from click.testing import CliRunner
from devices_on_loopback import DeviceSide, until

from mirror_server.cli import main
from mirror_server.clock import wall_time
from mirror_server.config import ListenAddress
from mirror_server.extensions.directory.service import DirectoryService
from mirror_server.extensions.lwm2m import device_keys
from mirror_server.extensions.lwm2m.backend import LwM2MBackend
from mirror_server.extensions.lwm2m.coap.limits import Tuning
from mirror_server.extensions.lwm2m.device.coap_socket import PreSharedKey
from mirror_server.extensions.lwm2m.device.device import LwM2MDevice, RegistrationRejected
from mirror_server.extensions.lwm2m.device.resources import DeviceResource
from mirror_server.extensions.lwm2m.device_keys import DeviceKey
from mirror_server.extensions.lwm2m.transport_api import NoResponse, Unreachable
from mirror_server.server import Services
from mirror_server.store.devices import DeviceRow

USUAL = Tuning(ack_timeout_seconds=0.5)
QUICK = Tuning(ack_timeout_seconds=0.2, retransmissions=1, handshake_seconds=1.5)
"""A timeout for a device that cannot connect."""


class Site:
    """A server with DTLS, and its devices."""

    def __init__(self, new_server: Any, side: DeviceSide) -> None:
        self.side = side
        self.server = new_server(coaps=ListenAddress("127.0.0.1", 0))
        (self.url,) = self.services.part(LwM2MBackend).urls()

    @property
    def services(self) -> Services:
        return self.server.services

    def key(self, name: str, identity: str | None = None) -> DeviceKey:
        return device_keys.add(self.services.database, name, identity, wall_time())

    def device(self, name: str, key: DeviceKey, secret: bytes | None = None) -> Any:
        psk = PreSharedKey(key.identity.encode(), secret or key.secret)
        tuning = QUICK if secret else USUAL

        async def create() -> Any:
            resources = (DeviceResource("/3303/0/5700", 21.5),)
            return LwM2MDevice(self.url, name, resources, key=psk, tuning=tuning)

        device = self.side.run(create())
        self.side.devices.append(device)
        return device

    def names(self) -> set[str]:
        return {each.endpoint_name for each in self.rows() if each.registered}

    def rows(self) -> list[DeviceRow]:
        rows, _ = self.services.devices.page([], after=None, descending=False, limit=100, count=False)
        return [each.device for each in rows]

    def run_command(self, *arguments: str) -> None:
        url = self.services.settings.database_url
        ended = CliRunner().invoke(main, ["devices", *arguments, "--database", url])
        assert ended.exit_code == 0, ended.output


@pytest.fixture
def site(new_server: Any, device_side: DeviceSide) -> Site:
    return Site(new_server, device_side)


def test_only_device_with_its_key_connects_and_no_secret_is_logged(site, caplog, capfd):
    assert site.url.startswith("coaps://127.0.0.1:")
    with caplog.at_level(logging.DEBUG):
        key = site.key("sensor")
        with pytest.raises((NoResponse, Unreachable), match="key"):
            site.side.run(site.device("sensor", key, secret=bytes(range(16))).register())
        assert site.names() == set()
        site.side.run(site.device("sensor", key).register())
        assert site.names() == {"sensor"}
        with pytest.raises(RegistrationRejected):
            site.side.run(site.device("other", key).register())
        site.run_command("revoke", "sensor")
        until(lambda: site.services.part(LwM2MBackend).endpoint.counts.sessions == 0)
    written = caplog.text + "".join(capfd.readouterr())
    assert "sensor" in written
    for text in (key.secret.hex(), key.secret.hex(" "), repr(key.secret)[2:-1], str(list(key.secret))):
        assert text not in written
        assert text not in repr(key)


def test_identity_can_register_only_its_own_name(site):
    site.key("other")
    device = site.device("other", site.key("sensor", "identity-1"))
    with pytest.raises(RegistrationRejected, match=r"4\.03"):
        site.side.run(device.register())
    site.side.run(site.device("sensor", stored(site, "sensor")).register())
    assert site.names() == {"sensor"}


def stored(site: Site, name: str) -> DeviceKey:
    found = site.services.database.query(lambda session: device_keys.find(session, name))
    assert found is not None
    return found


def update(site: Site, device: Any) -> None:
    """Update a registration. The session may have ended without the knowledge of the device."""
    try:
        site.side.run(device.update())
    except (NoResponse, Unreachable):
        site.side.run(device.update())


def test_renamed_device_keeps_id_and_registration_if_old_name_is_reused(site):
    device = site.device("old", key := site.key("old", "first"))
    site.side.run(device.register())
    (renamed,) = site.rows()
    site.run_command("rename", "old", "new")
    until(lambda: site.services.part(LwM2MBackend).endpoint.counts.sessions == 0)
    with pytest.raises(RegistrationRejected, match=r"4\.03"):
        site.side.run(site.device("old", key).register())
    site.side.run(site.device("old", site.key("old", "second")).register())
    update(site, device)
    ids = {each.endpoint_name: each.device_id for each in site.rows()}
    assert ids["new"] == renamed.device_id != ids["old"]
    connection = site.services.part(DirectoryService).connection
    until(lambda: all(connection(device_id).is_reachable for device_id in ids.values()))
    # Each of the two ends only its own registration.
    site.side.run(device.deregister())
    assert site.names() == {"old"}
    registry = site.services.part(LwM2MBackend)._lwm2m_server.registry
    assert registry.by_name("new") is None
    assert registry.by_name("old").peer.identity == "second"
    site.side.run(site.device("new", key).register())
    assert site.names() == {"old", "new"}
    # A restart loads both.
    site.server.restart()
    connection = site.services.part(DirectoryService).connection
    assert {connection(device_id).connection.protocol for device_id in ids.values()} == {"coaps"}


def test_rename_to_existing_device_freezes_registration_of_old_name(site):
    site.side.run(site.device("new", site.key("new", "second")).register())
    site.run_command("revoke", "new")
    device = site.device("old", key := site.key("old", "first"))
    site.side.run(device.register())
    site.run_command("rename", "old", "new")
    until(lambda: site.services.part(LwM2MBackend).endpoint.counts.sessions == 0)
    with pytest.raises(RegistrationRejected, match=r"4\.03.*ep=old"):
        update(site, device)
    with pytest.raises(RegistrationRejected, match=r"4\.03.*ep=old"):
        site.side.run(device.deregister())
    assert "old" in site.names()
    site.side.run(site.device("new", key).register())


def test_identity_can_end_only_its_own_registration(site):
    device = site.device("sensor", site.key("sensor"))
    site.side.run(device.register())
    attacker = site.device("thief", site.key("thief"))
    site.side.run(attacker.register())
    own, attacker.registration_id = attacker.registration_id, device.registration_id
    with pytest.raises(RegistrationRejected, match=r"4\.04"):
        site.side.run(attacker.deregister())
    assert site.names() == {"sensor", "thief"}
    attacker.registration_id = own
    site.side.run(attacker.deregister())
    assert site.names() == {"sensor"}


def test_plain_coap_cannot_end_registration_of_name_with_key(real, device_side):
    device = device_side.device("sensor")
    device_side.run(device.register())
    device_keys.add(real.services.database, "sensor", None, wall_time())
    with pytest.raises(RegistrationRejected, match=r"4\.03.*connect by coaps"):
        device_side.run(device.deregister())


def test_revoked_device_is_disconnected_and_others_stay(site):
    device, other = site.device("sensor", site.key("sensor")), site.device("other", site.key("other"))
    site.side.run(device.register())
    site.side.run(other.register())
    endpoint = site.services.part(LwM2MBackend).endpoint
    assert endpoint.counts.sessions == 2
    site.run_command("revoke", "sensor")
    until(lambda: endpoint.counts.sessions == 1)
    with pytest.raises((NoResponse, Unreachable)):
        site.side.run(device.update())
    site.side.run(other.update())
    site.key("sensor")
    device._transmission = QUICK
    with pytest.raises((NoResponse, Unreachable)):
        site.side.run(device.register())
