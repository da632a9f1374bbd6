"""Real devices by LwM2M 1.0 and 1.1 over CoAP, with and without DTLS: setup, keys, network, monitoring.

Any LwM2M client can register. It appears in the directory, and is read, written, executed and observed like a simulated
device. Both kinds can be used together::

    pip install "device-state-mirror[lwm2m]"
    mirror-server run --coap 127.0.0.1:5683
    mirror-device --server coap://127.0.0.1:5683 --name my-sensor

If you have no device at hand, ``mirror-device`` plays one. It also registers with any other LwM2M server.
``mirror-server demo --coap 127.0.0.1:5683`` and ``mirror lab --coap`` accept real devices too.

Keys and DTLS
-------------

Use plain CoAP on this machine only. On any other network anyone could impersonate a device, and read and change
messages. So the server rejects ``--coap`` with another address, unless you add ``--coap-insecure``.

With DTLS, each device authenticates with its own pre-shared key::

    pip install "device-state-mirror[lwm2m-dtls]"
    mirror-server devices add my-sensor
    mirror-server run --coaps 0.0.0.0:5684

The extra ``lwm2m-dtls`` is compiled at installation. On Debian it needs
``apt-get install autoconf automake gcc libc6-dev make python3-dev``. The cipher suite is
``TLS_PSK_WITH_AES_128_CCM_8``, which every LwM2M client supports.

``devices add`` prints the key once: 16 bytes in hexadecimal, for security mode 0 of the device. The identity is the
endpoint name, or the value of ``--identity``, at most 32 bytes. Only identities with a key can connect, and each can
register only its own endpoint name. These commands work while a server runs::

    mirror-server devices list
    mirror-server devices revoke my-sensor
    mirror-server devices rename my-sensor my-other-sensor

- A revoked device is disconnected within a second.
- A renamed device can register only under its new name. In the mirror it is the same device with the same id. If a
  device of the new name exists already, the two remain separate. The registration under the old name accepts no updates
  and expires after its lifetime. Presubscription rules belong to the applications and do not change: a rule for the old
  name does not apply to the new one.
- Over plain CoAP no device can register a name that has a key. If a device registered the name before the key was made,
  its next update or deregistration is rejected (4.03).
- After its key is revoked, any device can register the name over plain CoAP. The mirror treats any device that
  registers this name as the same device. So a server for devices with keys should not have ``--coap``.
- ``mirror-server erase`` also deletes the registration and the key of a device.

DTLS handshakes need the keys themselves, so the database contains them in plain form. The file and its backups are
readable by their owner only. If others can read the file, ``devices add`` is rejected and a server with ``--coaps``
logs a warning. Both messages contain the ``chmod`` that fixes it.

Protect a PostgreSQL database yourself: anyone who can read its tables, dumps or replicas can impersonate the devices.
Give no other user access, connect over TLS, and do not log statement parameters. Logs and responses of the mirror
contain no keys. ``mirror-device`` reads its key from the variable ``MIRROR_DEVICE_PSK``, because all users of a machine
can see command lines.

Network
-------

- Devices use UDP port 5683, or 5684 with DTLS: open that port in the firewall. HTTP proxies do not forward it. A
  systemd service needs ``MIRROR_COAPS=0.0.0.0:5684`` in its ``Environment`` and no further rights.
- Behind a router (NAT), a device is reachable at the address of its last message while the router keeps the mapping.
  That is often 30 seconds to a few minutes.
- A device that sleeps, or is silent for longer than the router keeps the mapping, should register in queue mode
  (binding ``UQ`` or ``Q``). It is awake for ``--coap-awake-seconds`` (93) after its last message. After that, requests
  wait for its next contact, as for any device that cannot be reached.
- A request that a device has not acknowledged is sent again at once when the device makes contact.
- An execute is repeated only as the same CoAP message, which a device recognizes. If the device registers again
  before it responds, the execute may have restarted it; the execute then ends with 504 ``TIMEOUT``.
- There is no bootstrap: configure this server's address as the LwM2M server of the device. ``POST /bs`` is rejected
  (4.04) with the reason, which is also logged.
- A resource with ``aobs`` in its link is subscribed without an observe request. Its initial value is the ``v=`` of the
  link, or a value that the device sent since it registered. If there is neither, the server reads the resource once.
- A device that does not respond does not delay others. Its registration ends after its lifetime.
- A device can send 200 messages per second, and 1,000 in a burst. Further messages are dropped and counted in
  ``mirror_coap_dropped_total``. If a notification is dropped, its observation ends with a line in the log. The resource
  is observed again after the next registration of the device, or when an application subscribes again.
- Bursts of thousands of notifications need a larger receive buffer than the system may allow. The log then shows the
  ``sysctl`` that allows it.
- Limits for unauthenticated devices: ``--max-coap-devices``, ``--max-coap-links``, ``--max-coap-payload-bytes``, and
  ``--coap-registrations-per-minute`` per address and port, so that devices behind one router count separately.
- A deregistered device remains in the directory until you run ``mirror-server erase``. So over plain CoAP,
  unauthenticated devices can fill the directory with names.

Monitoring
----------

- ``mirror devices --connections`` and the web page show protocol, LwM2M version, binding, lifetime and last contact of
  each device, and whether a request would reach it now. The address is shown to keys with the scope ``admin`` only.
- ``/metrics`` has ``mirror_lwm2m_devices``, ``mirror_lwm2m_registrations_total`` by outcome,
  ``mirror_lwm2m_notifications_total``, ``mirror_lwm2m_failed_exchanges_total`` and
  ``mirror_lwm2m_unreadable_answers_total``.
- Metrics of messages are ``mirror_coap_messages_total`` by direction and kind, ``mirror_coap_retransmissions_total``
  and ``mirror_coap_unanswered_total``. ``mirror_coap_dropped_total`` includes datagrams that the system dropped because
  the receive buffer was full.
- Metrics of DTLS are ``mirror_coap_sessions`` and ``mirror_coap_handshakes_total`` by outcome. A handshake with a wrong
  key counts as failed after 20 s.
- The log has one line per registration, even a rejected one, and one per failed request. Rejections, notifications
  without a value, and unreadable responses are limited to 60 lines per minute; ``/metrics`` counts all of them.

Restarts of the server
----------------------

Registrations are stored with the address. After a restart of the server a device continues with its updates, and the
server requests its observations again. ``mirror-server help operate`` lists what else a restart keeps.

A registration does not expire because the server was down. After a start, it gets the time that it had left when the
server stopped. Registrations that expired during the downtime, or would expire within ten minutes of the start, get
their full lifetime, but at least two and at most ten minutes.

DTLS sessions are in memory only. After a restart a device needs a new handshake, and requests wait until then:

- A server that is stopped properly ends its sessions, and devices reconnect at once. ``mirror-device`` was reachable
  0.6 to 8 s after the server was up again.
- After a crash, the server responds to a record of an unknown session with a fatal alert. A device that acts on the
  alert makes a handshake with its next message. ``mirror-device`` sends one after at most 30 s of silence, and was
  reachable after 22 s.
- The alert cannot be protected, so many libraries ignore it, including OpenSSL and tinydtls. Devices with these
  libraries notice the restart when an update of their registration gets no response for one or two minutes. They send
  the update before the lifetime ends, often after half of it. The usual lifetime is a day: configure minutes for such
  devices.

Several processes
-----------------

With several processes on PostgreSQL (``mirror-server help processes``), set the same ``--coap`` and ``--coaps`` for
all. Only the leader listens. If another process on the same machine takes over, it listens as soon as the port is free,
and devices are reachable again at their next contact. Another machine has another address, so devices have to connect
by a name or address that moves with the leader. ``mirror_leader`` in ``/metrics`` shows the leader.
"""

# Read ``real_devices`` first, then ``registrar`` and ``device_session``. ``coap`` is the transport below them.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mirror_server.extensions.lwm2m.settings import LwM2MSettings, check_listening
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirror_server.config import Settings
    from mirror_server.server import Services
    from mirror_server.store.backend import Storage


@extends
def needs() -> list[str]:
    """Require the CoAP library."""
    return ["aiocoap"]


@extends
def settings() -> type:
    """Add the addresses and limits of real devices."""
    return LwM2MSettings


@extends
def commands() -> dict[str, Sequence[str]]:
    """Add the commands for keys."""
    return {f"{__name__}.device_commands": ["devices"]}


@extends
def help_topics() -> dict[str, str]:
    """Add a topic for operators, and one for the device in Python."""
    return {"devices": __name__, "mirror-device": f"{__name__}.device"}


@extends
def storage() -> Storage:
    """Add the tables of keys and registrations."""
    from mirror_server.extensions.lwm2m import registrations
    from mirror_server.store.backend import Storage
    from mirror_server.store.schema import Branch

    return Storage(branch=Branch("lwm2m", Path(__file__).parent / "migrations"), erase=registrations.erase)


@extends
def check_settings(settings: Settings) -> None:
    """Reject settings that need a missing package or open an unprotected address."""
    check_listening(settings)


@extends
def shared_settings(settings: Settings) -> str:
    """Name the options that all processes of one database need."""
    chosen = settings.of(LwM2MSettings)
    # Empty without real devices: the text must equal that of versions that had no real devices.
    return "".join(f", with {name}" for name in ("--coap", "--coaps") if getattr(chosen, name[2:]))


@extends
def build(services: Services) -> Sequence[object]:
    """Listen for real devices if an address is configured."""
    chosen = services.settings.of(LwM2MSettings)
    if chosen.coap is None and chosen.coaps is None:
        return []
    # Imported late: it loads CBOR and other codecs that a server without real devices does not need.
    from mirror_server.extensions.lwm2m.real_devices import RealDevices

    return [RealDevices(chosen, services)]
