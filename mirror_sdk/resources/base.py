"""The base of the resource classes, with the session that all methods of one client share."""

from __future__ import annotations

from typing import Generic, NoReturn, Protocol, TypeVar

from mirror_sdk._fork import cannot_be_pickled
from mirror_sdk._members import WithMembers


class _SessionLike(Protocol):
    @property
    def base_url(self) -> str: ...

    def client(self) -> WithMembers | None: ...


SessionT = TypeVar("SessionT", bound=_SessionLike)


class ClientResource(WithMembers, Generic[SessionT]):
    """A group of a client's methods.

    Args:
        session: The session that all methods of the client share.
    """

    def __init__(self, session: SessionT) -> None:
        self._session = session

    def _client(self) -> WithMembers:
        return self._session.client() or self

    def __repr__(self) -> str:
        members = [name for name in dir(self) if not name.startswith("_")]
        return f"<{self._expression} of {self._session.base_url}: {', '.join(members)}>"

    def __reduce__(self) -> NoReturn:
        raise cannot_be_pickled(self, "send the results of its methods, and make a client in the other process")
