"""``python -m mirror_server.devices.lwm2m_client`` is the ``mirror-device`` command."""

from mirror_server.devices.lwm2m_client.command import main

main(prog_name="mirror-device")
