"""The base of the resource classes: it holds what all methods of one client share."""

from __future__ import annotations

from typing import Generic, NoReturn, Protocol, TypeVar

from mirror_sdk._fork import cannot_be_pickled


class _HasAddress(Protocol):
    @property
    def base_url(self) -> str: ...


SessionT = TypeVar("SessionT", bound=_HasAddress)


class ClientResource(Generic[SessionT]):
    """A group of a client's methods.

    Args:
        session: What all methods of the client share.
    """

    def __init__(self, session: SessionT) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._session.base_url}>"

    def __reduce__(self) -> NoReturn:
        raise cannot_be_pickled(self, "send what its methods returned, and make a client in the other process")
