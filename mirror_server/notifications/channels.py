"""Which notification channel a key has: one at a time, of whatever type. Source: wire.md 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mirror_server.core.errors import Refusal
from mirror_server.store.database import Database
from mirror_server.store.session import Session


class Channel(NamedTuple):
    """A type of channel.

    Attributes:
        mechanism: What it is called as a delivery mechanism.
        name: What it is called in a sentence.
        path: The route that ends one with DELETE.
        begin: Which request to this route begins one, in a list of such sentences.
    """

    mechanism: str
    name: str
    path: str
    begin: str


class Channels:
    """All types of channels there are.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._types: dict[Channel, Callable[[Session, str], bool]] = {}

    def add(self, channel: Channel, exists: Callable[[Session, str], bool]) -> None:
        """Add a type, and what tells whether an application has a channel of it."""
        self._types[channel] = exists

    def of(self, app_id: str) -> Channel:
        """The channel of an application.

        Raises:
            Refusal: It has none (404).
        """
        found = self._database.look(lambda session: self._find(session, app_id, None))
        if found is None:
            ways = ", ".join(channel.begin.format(channel.path) for channel in self._types)
            raise Refusal(404, f"this key has no notification channel; {ways}")
        return found

    def other(self, session: Session, app_id: str, own: Channel) -> Refusal | None:
        """The 400 of an application that has a channel of another type than its own."""
        other = self._find(session, app_id, own)
        if other is None:
            return None
        cure = f"only one type of channel at a time; end it with DELETE {other.path} first"
        return Refusal(400, f"this key has {other.name}, and {cure}", reason="OTHER_CHANNEL")

    def check(self, app_id: str, own: Channel) -> None:
        """Check that an application has no channel of another type.

        Raises:
            Refusal: It has one (400).
        """
        refusal = self._database.look(lambda session: self.other(session, app_id, own))
        if refusal is not None:
            raise refusal

    def _find(self, session: Session, app_id: str, own: Channel | None) -> Channel | None:
        types = self._types.items()
        return next((channel for channel, exists in types if channel != own and exists(session, app_id)), None)
