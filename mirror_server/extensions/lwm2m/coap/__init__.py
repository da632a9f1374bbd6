"""CoAP with devices: the sockets, DTLS, tokens, retransmissions, blocks, limits and counts.

aiocoap's sockets carry the datagrams (:mod:`.sockets`). Messages are parsed and built here. aiocoap's own layers never
free memory for messages of unauthenticated clients, block a silent peer for 93 s, and create an object per
notification. :mod:`.sockets` is the only module that imports aiocoap. It lists the private parts that it uses.
"""

from mirror_server.extensions.lwm2m.coap.dtls_transport import Keys
from mirror_server.extensions.lwm2m.coap.endpoint import CoapEndpoint
from mirror_server.extensions.lwm2m.coap.limits import DEFAULT_LIMITS, DEFAULT_TUNING, CoapLimits, Tuning
from mirror_server.extensions.lwm2m.transport_api import CannotListen, Counts, Handler

__all__ = ["CannotListen", "CoapEndpoint", "CoapLimits", "Counts", "Keys", "Tuning", "listen"]


async def listen(
    handler: Handler,
    *,
    coap: tuple[str, int] | None = None,
    coaps: tuple[str, int] | None = None,
    keys: Keys = lambda _identity: None,
    tuning: Tuning = DEFAULT_TUNING,
    limits: CoapLimits = DEFAULT_LIMITS,
) -> CoapEndpoint:
    """Listen for devices.

    Args:
        handler: Handles the requests and notifications of devices.
        coap: Host and port without DTLS. Port 0 selects a free one.
        coaps: Host and port with DTLS.
        keys: Returns the pre-shared key of an identity. Called on the event loop for each handshake. By default no
            identity has a key.
        tuning: The retransmission parameters.
        limits: The memory limits for unauthenticated clients.

    Raises:
        CannotListen: An address is in use or not of this machine, or DTLS is not installed.
    """
    endpoint = CoapEndpoint(handler, tuning, limits)
    try:
        if coap is not None:
            await endpoint.listen(coap)
        if coaps is not None:
            await endpoint.listen(coaps, keys)
    except CannotListen:
        await endpoint.close()
        raise
    return endpoint
