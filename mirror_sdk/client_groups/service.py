# Made from async_service.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The health and the web page of the service: ``client.service`` of a synchronous client."""

from __future__ import annotations

from mirror_sdk._protocol import operations as _operations
from mirror_sdk.client_groups.base import ClientGroup
from mirror_sdk.config import page_address
from mirror_sdk.device_lookup import DeviceLike, id_of
from mirror_sdk.errors import ClientClosed, ConfigError, MirrorError


class MirrorService(ClientGroup):
    """The health and the web page of the service: ``client.service`` of a synchronous client."""

    _expression = "client.service"

    def is_healthy(self, *, timeout: float | None = None) -> bool:
        """Return whether the service responds and reports that it is healthy.

        The result is ``False`` if the response is an error or the connection fails. The method raises an error only if
        the program itself is at fault, such as :class:`~mirror_sdk.ClientClosed` if the client is closed.

        >>> client.service.is_healthy()
        True
        """
        deadline = self._session.sender.deadline(timeout)
        try:
            return self._session.sender.send(_operations.get_health(), deadline)
        # These are errors of the program, which say nothing about the service.
        except (ClientClosed, ConfigError):
            raise
        except MirrorError:
            return False

    def browse(self, device_id: DeviceLike | None = None, *, timeout: float | None = None) -> str:
        """Open the service's web page of a device, or of the fleet, in a browser.

        You have to enter the access key on the page, because the address does not contain it. In a notebook of
        ``mirror lab``, you need not enter a key, because the page is opened through JupyterLab.

        Args:
            device_id: The id or the endpoint name of the device, or an object that contains its id. ``None`` opens the
                page of the fleet.
            timeout: The timeout for finding the device in the directory, in seconds. The default is the timeout of the
                client.

        Returns:
            The address of the page. If this machine has no browser, open the address in another one.

        Raises:
            AmbiguousName: Several devices have this name.
            UnknownDevice: The device does not exist.

        >>> client.service.browse()
        'http://mirror.localhost/'
        """
        found = None if device_id is None else self._session.run(id_of(self._session.names, device_id), timeout)
        address = page_address(self._session.base_url, found)
        import webbrowser  # rarely used

        webbrowser.open(address)
        return address
