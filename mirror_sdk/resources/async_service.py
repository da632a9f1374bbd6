"""The service itself: ``client.service`` of an asynchronous client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_sdk._off_loop import off_loop
from mirror_sdk._service import operations as _operations
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk.config import page_address
from mirror_sdk.errors import (
    ClientClosed,
    ConfigError,
    MirrorError,
)
from mirror_sdk.naming import (
    DeviceLike,
    id_of,
)
from mirror_sdk.resources.base import ClientResource

if TYPE_CHECKING:
    pass


class AsyncMirrorService(ClientResource[AsyncClientSession]):
    """The service itself: ``client.service`` of an asynchronous client."""

    async def is_healthy(self, *, timeout: float | None = None) -> bool:
        """Whether a mirror is up there and says so.

        Whatever else answers, or does not, is none: this raises nothing but :class:`ClientClosed`.

        >>> await client.service.is_healthy()
        True
        """
        deadline = self._session.sender.deadline(timeout)
        try:
            return await self._session.send(_operations.get_health(), deadline)
        except (ClientClosed, ConfigError):
            raise
        except MirrorError:
            return False

    async def browse(self, device_id: DeviceLike | None = None, *, timeout: float | None = None) -> str:
        """Open the page for people that the service has at its address, at a device or at the fleet.

        The page asks for an access key, as none stands in an address. In a notebook of ``mirror lab`` it is opened by
        way of JupyterLab, and asks for none.

        Args:
            device_id: A device, its id or its endpoint name; ``None`` for the fleet.
            timeout: Seconds to find the device in, instead of the client's; see :class:`MirrorClient`.

        Returns:
            The address it was opened at, to be opened by hand where this machine has no browser.

        Raises:
            AmbiguousName: Several devices have this name.
            UnknownDevice: There is no such device.

        >>> await client.service.browse()
        'http://mirror.localhost/'
        """
        found = None if device_id is None else await self._session.run(id_of(self._session.names, device_id), timeout)
        address = page_address(self._session.base_url, found)
        import webbrowser  # seldom needed

        await off_loop(webbrowser.open, address)
        return address
