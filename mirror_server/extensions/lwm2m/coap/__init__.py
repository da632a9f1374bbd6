"""CoAP communication with devices: sockets, DTLS, tokens, retransmissions, blocks, limits and counters.

The sockets of aiocoap carry the datagrams (:mod:`.sockets`), but messages are parsed and built here. aiocoap's own
layers are not used for three reasons. They never free memory for messages of unauthenticated clients, they wait up to
93 s for a silent peer, and they create an object for each notification. :mod:`.sockets` is the only module that imports
aiocoap. It lists the private parts of aiocoap that it uses.
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
    """Open the sockets to which devices connect.

    Args:
        handler: The handler of the requests and notifications of devices.
        coap: The host and port for CoAP without DTLS. Port 0 selects a free port.
        coaps: The host and port for CoAP over DTLS.
        keys: A function that returns the pre-shared key of an identity. It is called on the event loop for each
            handshake. By default no identity has a key.
        tuning: The retransmission parameters.
        limits: The memory limits for unauthenticated clients.

    Raises:
        CannotListen: An address is in use or does not belong to this machine, or DTLS is not installed.
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
