"""Many CoAP devices in one process, controlled by lines of JSON. See ``tests/bare_coap.py``."""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

from bare_coap import RST, BareDevice, Devices
from machine import allow_many_connections

_PATH = "/3303/0/5700"
_AGAIN_SECONDS = 3.0
_REGISTERING_AT_ONCE = 200
_LAST_SECONDS = 300


class Fleet(Devices):
    """Executes commands for all devices. It receives between two commands, without a thread."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._devices: list[BareDevice] = []
        self._values = 0

    def serve(self) -> None:
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        while True:
            if self._take(None):
                line = sys.stdin.readline()
                if not line:
                    return
                command = json.loads(line)
                print(json.dumps(getattr(self, command.pop("do"))(**command)), flush=True)

    def register(self, prefix: str, number: int) -> dict[str, Any]:
        """Register new devices, each from its own address. The number of concurrent registrations is limited."""
        existing = len(self._devices)
        for each in range(existing, existing + number):
            host = f"127.{1 + each // 65536}.{each // 256 % 256}.{each % 256}"
            device = BareDevice(self._port, f"{prefix}-{each}", {_PATH: "20.0"}, host=host)
            device.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
            self._devices.append(self.add(device))
        began = time.perf_counter()
        sent_again = self._register(self._devices[existing:])
        return {
            "seconds": time.perf_counter() - began,
            "sent_again": sent_again,
            "places": len({device.location for device in self._devices if device.location}),
            "refused": sum(message.code >= 0x80 for device in self._devices for message in device.responses),
        }

    def _register(self, devices: list[BareDevice]) -> int:
        waiting = deque(devices)
        open_since: dict[BareDevice, tuple[float, bytes]] = {}
        sent_again = 0
        end_at = time.monotonic() + _LAST_SECONDS
        while (waiting or open_since) and time.monotonic() < end_at:
            while waiting and len(open_since) < _REGISTERING_AT_ONCE:
                device = waiting.popleft()
                datagram = device.registration()
                open_since[device] = (time.monotonic(), datagram)
                device.send(datagram)
            self._take(0.05)
            now = time.monotonic()
            for device, (since, datagram) in list(open_since.items()):
                if device.location:
                    del open_since[device]
                elif now - since > _AGAIN_SECONDS:
                    open_since[device] = (now, datagram)
                    device.send(datagram)
                    sent_again += 1
        return sent_again

    def observed(self, number: int) -> dict[str, Any]:
        """Wait until this number of devices is observed."""
        began = time.perf_counter()
        self._until(lambda: sum(_PATH in device.observed for device in self._devices) >= number)
        return {
            "observed": sum(_PATH in device.observed for device in self._devices),
            "seconds": time.perf_counter() - began,
        }

    def notify(self, number: int, rate: float | None = None) -> dict[str, Any]:
        """Send changes of all devices in turn, ``rate`` per second, or as fast as possible."""
        devices = [device for device in self._devices if _PATH in device.observed]
        began = time.perf_counter()
        for sent, device in enumerate(islice(cycle(devices), number)):
            self._values += 1
            device.send(device.notification(_PATH, f"{self._values / 10}"))
            if rate is not None and sent % 2 == 1:
                while time.perf_counter() - began < sent / rate:
                    self._take(min(0.005, max(0.0, sent / rate - (time.perf_counter() - began))))
        return {"seconds": time.perf_counter() - began, "sent": number}

    def counts(self) -> dict[str, Any]:
        """Return the number of requests to the devices, and of errors and resets."""
        return {
            "asked": sum(len(device.requests) for device in self._devices),
            "resets": sum(message.kind == RST for device in self._devices for message in device.responses),
        }

    def _until(self, condition: Callable[[], bool]) -> None:
        end_at = time.monotonic() + _LAST_SECONDS
        while not condition() and time.monotonic() < end_at:
            self._take(0.1)

    def _take(self, seconds: float | None) -> bool:
        """Receive all pending datagrams, and return whether a command waits."""
        commanded = False
        for file, _ in self._poll.poll(seconds):
            if file == sys.stdin.fileno():
                commanded = True
            else:
                self._by_file[file].receive()
        return commanded


def main() -> None:
    allow_many_connections()
    Fleet(int(sys.argv[1])).serve()


if __name__ == "__main__":
    main()
