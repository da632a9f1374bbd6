"""The base classes of the groups of methods, such as ``client.devices``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from mirror_sdk._attribute_suggestions import WithAttributeSuggestions
from mirror_sdk._fork import cannot_be_pickled

if TYPE_CHECKING:
    from mirror_sdk._session.async_client_session import AsyncClientSession
    from mirror_sdk._session.client_session import ClientSession


class BaseClientGroup(WithAttributeSuggestions):
    """The base class of the groups of methods of a client."""

    def __init__(self, session: AsyncClientSession | ClientSession) -> None:
        self._session = session

    def _client(self) -> WithAttributeSuggestions:
        return self._session.client() or self

    def __repr__(self) -> str:
        members = [name for name in dir(self) if not name.startswith("_")]
        return f"<{self._expression} of {self._session.base_url}: {', '.join(members)}>"

    def __reduce__(self) -> NoReturn:
        """Raise an error, because a group of methods cannot be pickled."""
        raise cannot_be_pickled(self, "send the results of its methods, and make a client in the other process")


# Two classes instead of a generic one: help() of a generic class shows the methods of typing.Generic.


class AsyncClientGroup(BaseClientGroup):
    """The base class of the groups of methods of an asynchronous client."""

    def __init__(self, session: AsyncClientSession) -> None:
        """Create the group for the session that all methods of the client share."""
        super().__init__(session)
        self._session: AsyncClientSession = session


class ClientGroup(BaseClientGroup):
    """The base class of the groups of methods of a synchronous client."""

    def __init__(self, session: ClientSession) -> None:
        """Create the group for the session that all methods of the client share."""
        super().__init__(session)
        self._session: ClientSession = session
