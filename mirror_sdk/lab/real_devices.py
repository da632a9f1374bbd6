"""LwM2M devices in a process of their own, which come to a mirror by CoAP."""

from __future__ import annotations

import subprocess
import sys
import time

from mirror_sdk._client import MirrorClient
from mirror_sdk.lab.demo import DemoError

DEVICE_COMMAND = (sys.executable, "-m", "mirror_server.extensions.lwm2m.device")

_LOOK_SECONDS = 0.1
_READY_SECONDS = 30.0
_STOP_SECONDS = 15.0
_LIFETIME_SECONDS = 30 * 86400
"""The mirror's time may be advanced by days in a moment, of which a device knows nothing."""


class LabDevices:
    """Running devices, registered at a mirror. They end when this is closed, and also when this process ends.

    Args:
        url: Where the mirror takes devices, ``coap://HOST:PORT``.
        client: A client of the mirror.
        count: How many there are: of all kinds in turn, called ``NAME-01``, ``NAME-02`` and so on.
        name: How their names begin.

    Raises:
        DemoError: They do not start, or do not register.
    """

    def __init__(self, url: str, client: MirrorClient, *, count: int = 4, name: str = "real") -> None:
        options = [f"--server={url}", f"--name={name}", f"--count={count}", "--kind=mixed"]
        self.names: list[str] = [f"{name}-{number:02}" for number in range(1, count + 1)] if count > 1 else [name]
        self._process = subprocess.Popen(  # noqa: S603 - our own program, by this very interpreter
            [*DEVICE_COMMAND, *options, f"--lifetime={_LIFETIME_SECONDS}", "--stop-with-stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # A Ctrl-C in the terminal is not for them: the mirror would see them leave first.
            start_new_session=True,
        )
        try:
            self._wait_until_registered(client)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Have them deregister, and end."""
        self._process.terminate()
        try:
            self._process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _wait_until_registered(self, client: MirrorClient) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while missing := set(self.names) - {device.endpoint_name for device in client.devices.list()}:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise DemoError(
                    f"the devices did not register ({', '.join(sorted(missing))}); 'mirror-device' shows why"
                )
            time.sleep(_LOOK_SECONDS)
