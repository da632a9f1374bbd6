"""``python -m mirror_server.extensions.lwm2m.device`` is the ``mirror-device`` command."""

from mirror_server.extensions.lwm2m.device.command import main

main(prog_name="mirror-device")
