"""Which devices come in over DTLS: what the handshake and the messages behind it ask of the keys that are stored."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from mirror_server.store import device_keys
from mirror_server.store.database import Database
from mirror_server.store.device_keys import DeviceKey
from mirror_server.store.failures import StorageFailed

_log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 1.0
"""How long at most a session goes on after its key was revoked: thousands of messages a second look only that often."""


class Identities:
    """The keys of the devices, as an operator changes them beside the running server.

    For one thread: that of the event loop. A look at the database is short enough for it.

    Args:
        database: Where the keys are.
        seconds_now: A clock that never goes back, in seconds; real time, because operators are in no domain time.
    """

    def __init__(self, database: Database, seconds_now: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._seconds_now = seconds_now
        self._seen: dict[str, tuple[float, DeviceKey]] = {}

    def find(self, identity: str) -> DeviceKey | None:
        """The key of who calls itself so, as it is stored at this moment; for a handshake.

        ``None`` for an unknown identity, and where the database does not answer: the device comes again.
        """
        try:
            return self._look(identity)
        except StorageFailed as error:
            _log.warning("a device stays out, because its key cannot be looked up: %s", error)
            return None

    def still_holds(self, key: DeviceKey) -> bool:
        """Whether a key that a session began with is good still: not revoked, not made anew, for the same name.

        To be asked at each message of the session, either way. It is known a second after an operator changed it.
        """
        looked_at, found = self._seen.get(key.identity, (-math.inf, key))
        if self._seconds_now() - looked_at < _LOOK_AGAIN_SECONDS:
            return found == key
        try:
            return self._look(key.identity) == key
        except StorageFailed:
            # What is not known to have changed goes on; nothing that comes can be stored meanwhile.
            return found == key

    def _look(self, identity: str) -> DeviceKey | None:
        found = self._database.look(lambda session: device_keys.find_identity(session, identity))
        if found is not None:
            self._seen[identity] = self._seconds_now(), found
        else:
            # Anybody may name as many identities as they like: those that are not there are not held.
            self._seen.pop(identity, None)
        return found
