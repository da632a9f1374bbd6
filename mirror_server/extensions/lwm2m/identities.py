"""Which devices come in over DTLS: what handshakes ask of the keys that are stored, and whose sessions are to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mirror_server.extensions.lwm2m.store import device_keys
from mirror_server.extensions.lwm2m.store.device_keys import DeviceKey
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database

_log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 1.0
"""How long a session goes on, in real time, after an operator changed its key."""


class Identities:
    """The keys of the devices, as an operator changes them beside the running server; for one event loop.

    Args:
        database: Where the keys are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes: int | None = None
        self._in_use: dict[str, DeviceKey] = {}
        self._replaced: set[str] = set()

    def secret(self, identity: str) -> bytes | None:
        """What a handshake of this identity computes with, as it is stored at this moment.

        ``None`` for an unknown identity, and where the database does not answer: the device comes again.
        """
        try:
            key = self._database.look(lambda session: device_keys.find_identity(session, identity))
        except StorageFailed as error:
            _log.warning("a device stays out, because its key cannot be looked up: %s", error)
            return None
        # Anybody may name as many identities as they like: those that are not there are not held.
        if key is None:
            return None
        if self._in_use.get(identity, key) != key:
            self._replaced.add(identity)
        self._in_use[identity] = key
        return key.secret

    async def ended(self) -> set[str]:
        """The identities whose sessions are to end, because their key was revoked, replaced or is for another name.

        Those that were told are forgotten until their next handshake.
        """
        # As they are before the look: a key that is made right behind it is not taken for one that is gone.
        in_use, replaced = dict(self._in_use), set(self._replaced)
        if not in_use:
            return set()
        try:
            stored = await asyncio.to_thread(self._stored_if_changed)
        except StorageFailed:
            # What is not known to have changed goes on; nothing that comes can be stored meanwhile.
            return set()
        gone = set() if stored is None else {name for name, key in in_use.items() if stored.get(name) != key}
        for identity in gone | replaced:
            # Who came with a new key during the look is held on to.
            if self._in_use.get(identity) == in_use.get(identity):
                self._in_use.pop(identity, None)
        self._replaced -= replaced
        return gone | replaced

    async def watch(self, end_sessions: Callable[[str], None]) -> None:
        """Have sessions ended until cancelled.

        Args:
            end_sessions: Ends those of an identity; called on the event loop.
        """
        while True:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            for identity in await self.ended():
                end_sessions(identity)

    def _stored_if_changed(self) -> dict[str, DeviceKey] | None:
        with self._database.read() as session:
            changes = device_keys.count_changes(session)
            if changes == self._changes:
                return None
            self._changes = changes
            return {key.identity: key for key in device_keys.list_all(session)}
