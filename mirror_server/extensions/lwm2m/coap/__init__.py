"""CoAP with devices: the sockets, DTLS, tokens, retransmissions, blocks, limits and counts.

aiocoap's sockets carry the datagrams (:mod:`.sockets`); what they say is read and sent here, since aiocoap's own layers
keep what strangers send for ever, block a silent peer for 93 s, and take notifications through an object each. The
private places of aiocoap are named in :mod:`.sockets`, the only module that imports it.
"""

from mirror_server.extensions.lwm2m.coap.endpoint import CoapEndpoint
from mirror_server.extensions.lwm2m.coap.limits import DEFAULT_LIMITS, DEFAULT_TUNING, CoapLimits, Tuning
from mirror_server.extensions.lwm2m.coap.sessions import Keys
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
        handler: Who answers them.
        coap: Host and port without DTLS; port 0 is any that is free.
        coaps: Host and port with DTLS.
        keys: The pre-shared keys; asked on the event loop for each handshake. Without them nobody comes in.
        tuning: When a message is sent again.
        limits: How much memory strangers can take.

    Raises:
        CannotListen: An address is taken, or not of this machine, or what DTLS needs is not installed.
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
