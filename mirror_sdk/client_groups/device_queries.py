# Made from async_device_queries.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The saved queries of the directory: ``client.devices.queries`` of a synchronous client."""

from __future__ import annotations

import builtins
from collections.abc import Mapping

from mirror_sdk._protocol import operations as _operations
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk.client_groups.base import ClientGroup
from mirror_sdk.wire.device_queries import DeviceQuery


class DeviceQueries(ClientGroup):
    """The saved queries of the directory: ``client.devices.queries`` of a synchronous client.

    A saved query is a named filter for devices. ``create(name, query)`` saves a query, and
    ``client.devices.list(query=name)`` uses it. All applications of the service share the saved queries.
    """

    _expression = "client.devices.queries"

    def list(self, *, timeout: float | None = None) -> builtins.list[DeviceQuery]:
        """Return the saved queries of all applications, oldest first.

        >>> client.devices.queries.list()
        []
        """
        deadline = self._session.sender.deadline(timeout)
        return self._session.collect(_operations.list_device_queries, deadline)

    def create(self, name: str, query: str | Mapping[str, object], *, timeout: float | None = None) -> DeviceQuery:
        """Save a filter for devices under a name that all applications can use.

        Args:
            name: The name of the query. It must be unique.
            query: The conditions, either in the form of the argument ``filters`` of ``client.devices.list()``, or as a
                query string such as ``endpoint_type__eq=Light``.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Raises:
            BadRequest: A filter does not exist, another query has this name, or too many queries are saved.
            ValueError: The name or the query is too long, a time has no time zone, or a list of values is passed for an
                operator other than ``in`` or ``nin``.

        >>> lights = client.devices.queries.create("lights", {"endpoint_type": "Light"})
        >>> lights.query
        'endpoint_type__eq=Light'
        >>> [device.endpoint_name for device in client.devices.list(query="lights")]
        ['light-01']
        """
        return self._session.sender.send(_operations.post_device_query(name, query), timeout)

    def update(
        self,
        which: str | DeviceQuery,
        *,
        name: str | None = None,
        query: str | Mapping[str, object] | None = None,
        timeout: float | None = None,
    ) -> DeviceQuery:
        """Change the name or the conditions of a saved query. An argument that is ``None`` changes nothing.

        Args:
            which: The saved query, or its name.
            name: The new name.
            query: The new conditions, in the form that :meth:`create` accepts.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Raises:
            BadRequest: A filter does not exist, or another query has this name.
            NotFound: The query was deleted in the meantime.
            UnknownQuery: No query has this name.
            ValueError: The name or the query is too long, a time has no time zone, or a list of values is passed for an
                operator other than ``in`` or ``nin``.

        >>> lights = client.devices.queries.create("lights", {"endpoint_type": "Light"})
        >>> client.devices.queries.update(lights, name="lamps").name
        'lamps'
        """
        deadline = self._session.sender.deadline(timeout)
        found = query_of(self._session, which, deadline)
        return self._session.sender.send(_operations.put_device_query(found.id, name=name, query=query), deadline)

    def delete(self, which: str | DeviceQuery, *, timeout: float | None = None) -> None:
        """Delete a saved query.

        Args:
            which: The saved query, or its name.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Raises:
            NotFound: The query was already deleted.
            UnknownQuery: No query has this name.

        >>> lights = client.devices.queries.create("lights", {"endpoint_type": "Light"})
        >>> client.devices.queries.delete("lights")
        """
        deadline = self._session.sender.deadline(timeout)
        found = query_of(self._session, which, deadline)
        self._session.sender.send(_operations.delete_device_query(found.id), deadline)


def query_of(session: ClientSession, query: str | DeviceQuery, timeout: float | None) -> DeviceQuery:
    """Return a saved query. The argument is the query itself or its name.

    Raises:
        UnknownQuery: No query has this name.
    """
    if isinstance(query, DeviceQuery):
        return query
    return session.sender.send(_operations.find_device_query(query), timeout)
