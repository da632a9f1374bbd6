"""Real devices, by LwM2M 1.0 and 1.1 over CoAP, with and without DTLS: what an operator has to know of them.

Any LwM2M client registers, shows up in the directory, and is read, written, executed and observed as the simulated
devices are, which may be there beside them::

    pip install "device-state-mirror[lwm2m]"
    mirror-server run --coap 127.0.0.1:5683
    mirror-device --server coap://127.0.0.1:5683 --name my-sensor

``mirror-device`` is a device in Python, for who has none at hand; it registers with any other LwM2M server as well.
``mirror-server demo --coap 127.0.0.1:5683`` and ``mirror lab --coap`` have real devices too.

With keys
---------

Plain CoAP is for this machine, and ``--coap`` beyond it is refused without ``--coap-insecure``: anybody on such a
network can pass for any device, and read and change what is sent. Over DTLS each device proves itself by a pre-shared
key of its own::

    pip install "device-state-mirror[lwm2m-dtls]"
    mirror-server devices add my-sensor
    mirror-server run --coaps 0.0.0.0:5684

The extra ``lwm2m-dtls`` is compiled when it is installed. On Debian it needs
``apt-get install autoconf automake gcc libc6-dev make python3-dev``. The cipher suite is
``TLS_PSK_WITH_AES_128_CCM_8``, the one that every LwM2M client has.

``devices add`` prints the key once: 16 bytes in hexadecimal digits, for the device's security mode 0. As identity the
device says its endpoint name, or what ``--identity`` names, 32 bytes at most. Only identities with a key come in, and
each registers its own endpoint name alone. These work beside a running server::

    mirror-server devices list
    mirror-server devices revoke my-sensor
    mirror-server devices rename my-sensor my-other-sensor

A revoked device is out within a second. A renamed one may register under the new name alone, and in the mirror it is
the same device with the same id. Where there was a device of the new name already, the two stay two, and the
registration by the old name takes no updates any more, and lasts for its lifetime. In plain CoAP nobody registers a
name that has a key, and who registered there before the key was made is refused (4.03) when it updates or ends its
registration. A name whose key was revoked is free there, and who takes it is that device to the mirror, so a server for
devices with keys has no ``--coap``.

A handshake computes with the key itself, so keys stand in the database as they are. Its file and its backups are
readable by their owner alone; where others may read the file, ``devices add`` is refused and a server with ``--coaps``
warns, both with the ``chmod`` that mends it. A PostgreSQL database is for you to guard: who reads its tables, dumps or
replicas can pass for the devices, so let no other user into it, go there over TLS, and let it log no parameters of
statements. Keys stand in no log of the mirror and in no answer; ``mirror-device`` takes its one from the variable
``MIRROR_DEVICE_PSK``, because a command line is seen by all users of a machine.

The network
-----------

- Devices come by UDP, on 5683 or with DTLS on 5684: open that port in the firewall. A proxy for HTTP does not carry it.
  A service of systemd needs ``MIRROR_COAPS=0.0.0.0:5684`` in its ``Environment`` and no further rights.
- Behind a router (NAT) a device is reached at the address of its last message, for as long as the router remembers:
  often 30 seconds to a few minutes. A device that is silent for longer should register in queue mode (binding ``UQ``,
  or ``Q``): it is then sent something for ``--coap-awake-seconds`` after its last message (93), and otherwise requests
  wait until it makes contact. Requests to any device that cannot be reached wait so. A request that a device has not
  acknowledged is sent again at once when it makes contact.
- An execute is sent again only as the same CoAP message, which a device recognizes. If a device registers meanwhile, it
  may have restarted because of the execute, which then ends with 504 ``TIMEOUT``.
- There is no bootstrap: give a device this server's address as that of its LwM2M server. ``POST /bs`` is refused with
  the reason (4.04), which is in the log too.
- A resource with ``aobs`` in its link is subscribed without a request to observe it. Its initial value is the ``v=`` of
  the link or what the device sent since it registered. Where there is neither, the resource is read once.
- A device that does not answer holds up no other one. Its registration ends with the lifetime that it said.
- A device may send 200 messages a second for long, and 1,000 at once. What is beyond that is dropped, and counts in
  ``mirror_coap_dropped_total``. Where it is a notification, its observation ends, with a line in the log: the
  resource is observed again after the next registration of the device, or when an application subscribes again.
- Bursts of thousands of notifications need a receive buffer that the system may not allow; the log then says so, with
  the ``sysctl`` that does.
- What strangers may is bounded: ``--max-coap-devices``, ``--max-coap-links``, ``--max-coap-payload-bytes``, and
  ``--coap-registrations-per-minute`` of one address and port, so that devices behind one router are apart. Devices that
  left stay in the directory until ``mirror-server erase``: in plain CoAP strangers can fill it with names.

Watching them
-------------

- ``mirror devices --connections`` and the page tell of each device protocol, version of LwM2M, binding, lifetime, last
  contact, and whether a request would reach it now; its address is told to keys with the scope ``admin`` alone.
- ``/metrics`` has ``mirror_lwm2m_devices``, ``mirror_lwm2m_registrations_total`` by outcome,
  ``mirror_lwm2m_notifications_total``, ``mirror_lwm2m_failed_exchanges_total``,
  ``mirror_lwm2m_unreadable_answers_total``; of the messages ``mirror_coap_messages_total`` by direction and kind,
  ``mirror_coap_retransmissions_total``, ``mirror_coap_unanswered_total``, ``mirror_coap_dropped_total``, with the
  datagrams that the system dropped because the receive buffer was full; of DTLS ``mirror_coap_sessions`` and
  ``mirror_coap_handshakes_total`` by outcome. A handshake with a wrong key counts as failed after 20 s.
- The log has one line a registration, also one that was refused, and one a request that failed. Of refusals, of
  notifications without a value and of answers that cannot be read, it has 60 a minute at most: ``/metrics`` counts all
  of them.

What is stored
--------------

Registrations are stored with the address, so a restart of the server is no matter for a device: it goes on with its
updates, and its observations are requested again. A session of DTLS is in memory alone. After a restart a device needs
another handshake, and requests wait until then:

- A server that is stopped in order ends its sessions, and devices try again at once. ``mirror-device`` was reached 0.6
  to 8 s after the server listened again.
- After a crash the server answers a record of an unknown session with a fatal alert. A device that acts on it makes a
  handshake with its next message. ``mirror-device``, which sends one after 30 s of silence at the latest, was reached
  after 22 s.
- The alert cannot be protected, so many libraries ignore it: OpenSSL and tinydtls do. A device with one of these
  notices when an update of its registration is not answered, which takes it one or two minutes more. It updates before
  its lifetime ends, often after half of it: give such devices a lifetime of minutes, since the usual one is a day.

A registration does not expire because the service was down. One that expired meanwhile, or would within ten minutes
after the start, is valid for as long as it had left when the service stopped. It is valid for its lifetime at least if
that is two to ten minutes; a shorter lifetime counts as two minutes, a longer one as ten.

``mirror-server erase`` deletes the registration and the key too. Presubscription rules name devices by what they are
called, and belong to the applications: ``rename`` does not change them.

With several processes on PostgreSQL (``mirror-server help processes``) all of them have the same ``--coap`` and
``--coaps``, and the one that leads listens. When another takes over on the same machine, it listens as soon as the port
is free, and devices are reached again at their next contact. On another machine it has another address: devices have to
come by a name or an address that moves along with the lead. ``mirror_leader`` in ``/metrics`` tells who leads.
"""

# To read it begin with ``real_devices``, then ``registrar`` and ``conversation``; ``coap`` is what they send with.

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
    """What writes and reads the messages of CoAP."""
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
    """Find what is not installed, and what would be open to everybody."""
    check_listening(settings)


@extends
def in_common(settings: Settings) -> str:
    """Name the options that all processes of one database need."""
    chosen = settings.of(LwM2MSettings)
    # Empty without real devices, as in versions before them.
    return "".join(f", with {name}" for name in ("--coap", "--coaps") if getattr(chosen, name[2:]))


@extends
def build(services: Services) -> Sequence[object]:
    """Listen for them, if there is an address."""
    chosen = services.settings.of(LwM2MSettings)
    if chosen.coap is None and chosen.coaps is None:
        return []
    # It reads CBOR and what else devices speak: a server without real devices starts without it.
    from mirror_server.extensions.lwm2m.real_devices import RealDevices

    return [RealDevices(chosen, services)]
