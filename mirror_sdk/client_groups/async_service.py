"""The service itself: ``client.service`` of an asynchronous client."""

from __future__ import annotations

from mirror_sdk._protocol import operations as _operations
from mirror_sdk._run_in_thread import run_in_thread
from mirror_sdk.client_groups.base import AsyncClientGroup
from mirror_sdk.config import page_address
from mirror_sdk.device_lookup import DeviceLike, id_of
from mirror_sdk.errors import ClientClosed, ConfigError, MirrorError


class AsyncMirrorService(AsyncClientGroup):
    """The service, ``client.service`` of an asynchronous client: whether it is healthy, and its web page."""

    _expression = "client.service"

    async def is_healthy(self, *, timeout: float | None = None) -> bool:
        """Return whether a healthy mirror responds at the address.

        ``False`` for any other response, and if there is none. The only error that it raises is
        :class:`~mirror_sdk.ClientClosed`.

        >>> await client.service.is_healthy()
        True
        """
        deadline = self._session.sender.deadline(timeout)
        try:
            return await self._session.sender.send(_operations.get_health(), deadline)
        # Mistakes of the program say nothing about the service.
        except (ClientClosed, ConfigError):
            raise
        except MirrorError:
            return False

    async def browse(self, device_id: DeviceLike | None = None, *, timeout: float | None = None) -> str:
        """Open the service's web page in a browser, at a device or at the fleet.

        The page requires an access key, because the address does not contain one. In a notebook of ``mirror lab`` it is
        opened through JupyterLab and requires none.

        Args:
            device_id: A device, its id or its endpoint name; ``None`` for the fleet.
            timeout: Seconds to find the device in the directory, instead of the client's.

        Returns:
            The address of the page, to open by hand if this machine has no browser.

        Raises:
            AmbiguousName: Several devices have this name.
            UnknownDevice: The device does not exist.

        >>> await client.service.browse()
        'http://mirror.localhost/'
        """
        found = None if device_id is None else await self._session.run(id_of(self._session.names, device_id), timeout)
        address = page_address(self._session.base_url, found)
        import webbrowser  # rarely used

        await run_in_thread(webbrowser.open, address)
        return address
