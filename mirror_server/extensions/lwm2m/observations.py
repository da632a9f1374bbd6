"""Which notification is of which resource. Source: RFC 7641; LwM2M core, observation."""

from __future__ import annotations

import secrets

from mirror_server.extensions.lwm2m.exchange import Notification, Peer
from mirror_server.extensions.lwm2m.registry import Observed, RegisteredDevice

_TOKEN_BYTES = 8
"""The longest there is: who does not see the traffic cannot guess it."""


class Observations:
    """All that devices observe, by token and by path."""

    def __init__(self) -> None:
        # Tokens chosen here are told apart by themselves; those of devices are short, and each peer has its own.
        self._asked: dict[bytes, Observed] = {}
        self._unasked: dict[tuple[Peer, bytes], Observed] = {}

    def begin(self, device: RegisteredDevice, path: str) -> Observed:
        """The observation of a resource, with a token of its own unless it has one."""
        observed = device.observed.get(path)
        if observed is None:
            observed = device.observed[path] = Observed(device, path, secrets.token_bytes(_TOKEN_BYTES))
            self._asked[observed.token] = observed
        return observed

    def expect(self, device: RegisteredDevice, token: bytes, path: str) -> None:
        """Have a device send a resource unasked, with a token of its own."""
        self.end(device, path)
        observed = device.observed[path] = Observed(device, path, token, is_asked=False)
        self._unasked[device.peer, token] = observed

    def end(self, device: RegisteredDevice, path: str) -> None:
        """Forget an observation; harmless where there is none."""
        observed = device.observed.pop(path, None)
        if observed is not None:
            self._forget(observed)

    def end_all(self, device: RegisteredDevice) -> None:
        """Forget all observations of a device."""
        for observed in device.observed.values():
            self._forget(observed)
        device.observed.clear()

    def move(self, device: RegisteredDevice, peer: Peer) -> None:
        """Reach a device at another address from now on; its observations go on."""
        unasked = [observed for observed in device.observed.values() if not observed.is_asked]
        for observed in unasked:
            self._forget(observed)
        device.peer = peer
        for observed in unasked:
            self._unasked[peer, observed.token] = observed

    def find(self, notification: Notification) -> Observed | None:
        """The observation that a notification is of; ``None`` where nobody asked for it, or another peer sent it."""
        peer = notification.peer
        observed = self._asked.get(notification.token)
        if observed is None:
            return self._unasked.get((peer, notification.token))
        return observed if observed.device.may_be(peer) else None

    def _forget(self, observed: Observed) -> None:
        if observed.is_asked:
            self._asked.pop(observed.token, None)
        elif self._unasked.get((observed.device.peer, observed.token)) is observed:
            del self._unasked[observed.device.peer, observed.token]
