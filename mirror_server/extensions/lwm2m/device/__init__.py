"""A LwM2M device in Python over CoAP, with and without DTLS: the command ``mirror-device``, and a library for tests.

It is for people without hardware, and to try any LwM2M 1.0 or 1.1 server. It is part of
``pip install 'device-state-mirror[lwm2m]'``. Two shells put a thermometer into the mirror::

    mirror-server run --coap 127.0.0.1:5683
    mirror-device --server coap://127.0.0.1:5683 --name my-sensor --kind thermometer

The device uses the models of the simulated devices: the same ``--seed`` and name produce the same values. It updates
its registration after half its lifetime, and registers again if the server no longer knows it. If it gets no response,
it retries with growing pauses (5 to 300 s). Ctrl-C deregisters it.

With ``--queue`` it is in queue mode: it sleeps from 93 s after its last message, and makes contact every 15 minutes.
Each device has its own schedule, so its first sleep can be shorter. ``--count 20 --kind mixed`` runs 20 devices of all
kinds in one process.

DTLS
----

DTLS needs the extra ``lwm2m-dtls``. It is compiled at installation, which needs on Debian ``apt-get install autoconf
automake gcc libc6-dev make python3-dev``. The device authenticates with a key that the mirror prints once::

    mirror-server devices add my-sensor
    export MIRROR_DEVICE_PSK=00ff1a2b
    mirror-device --server coaps://mirror.example:5684 --name my-sensor

The device reconnects if the server ends the session, or was restarted and no longer has it. After 30 s without a
message from the server, the device sends one. A restarted server responds with an alert; without a response, the device
reconnects too. In queue mode this happens at its next contact.

In programs and tests
---------------------

Use ``LwM2MDevice`` (``.device``) on an event loop of your own. It only responds to requests and sends changes of
observed resources; everything else is up to you::

    device = LwM2MDevice("coap://127.0.0.1:5683", "my-sensor", [DeviceResource("/3303/0/5700", 21.5)])
    await device.register()
    device.set_value("/3303/0/5700", 22.0)
    device.behavior.error_codes["PUT", "/3311/0/5850"] = "4.03"
    device.sleep()
    await device.wake(from_new_port=True, registers=True)
    await device.deregister()
    await device.close()

``BackgroundFleet`` (``.fleet``) runs such devices on a thread, for programs without an event loop.

Limits
------

One process can run thousands of devices: 19 KiB each, and less than a hundredth of a processor for a thousand of them
that measure every minute. Bootstrap, transports other than UDP, observations by more than one server,
and conditions on values (``gt``, ``lt``, ``st``) are not supported.

Source: LwM2M core and transport 1.1; RFC 7252 (CoAP), RFC 7641 (Observe), RFC 7959 (block-wise transfer).
"""
