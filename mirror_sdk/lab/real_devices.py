"""LwM2M devices in a separate process, which register with a mirror over CoAP."""

from __future__ import annotations

import subprocess
import sys
import time

from mirror_sdk._client import MirrorClient
from mirror_sdk.lab.demo import ChildProcess, DemoError

DEVICE_COMMAND = (sys.executable, "-m", "mirror_server.extensions.lwm2m.device")

_POLL_SECONDS = 0.1
_READY_SECONDS = 30.0
_LIFETIME_SECONDS = 30 * 86400
"""The lifetime of the registrations.

It is long, because the time of the mirror may be advanced by days at once, which the devices do not notice.
"""


class LabDevices(ChildProcess):
    """Running devices that are registered with a mirror.

    They end when this object is closed, and when this process ends.

    Args:
        url: The address of the mirror for devices, ``coap://HOST:PORT``.
        client: A client of the mirror.
        count: The number of devices. They are of all kinds in turn, with the names ``NAME-01``, ``NAME-02`` and so on.
        name: The prefix of the device names.

    Raises:
        DemoError: The devices do not start or do not register.
    """

    def __init__(self, url: str, client: MirrorClient, *, count: int = 4, name: str = "real") -> None:
        options = [f"--server={url}", f"--name={name}", f"--count={count}", "--kind=mixed"]
        self.names: list[str] = [f"{name}-{number:02}" for number in range(1, count + 1)] if count > 1 else [name]
        command = [*DEVICE_COMMAND, *options, f"--lifetime={_LIFETIME_SECONDS}"]
        super().__init__(command, stdout=subprocess.DEVNULL)
        try:
            self._wait_until_registered(client)
        except BaseException:
            self.close()
            raise

    def _wait_until_registered(self, client: MirrorClient) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while missing := set(self.names) - {device.endpoint_name for device in client.devices.list()}:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise DemoError(
                    f"these devices did not register: {', '.join(sorted(missing))}; to see the reason, run"
                    " 'mirror-device' with the same --server and --name"
                )
            time.sleep(_POLL_SECONDS)
