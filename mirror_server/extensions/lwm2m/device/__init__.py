"""A LwM2M device in Python over CoAP, with and without DTLS: the command ``mirror-device``, and a library for tests.

For people who have no hardware, and to try any LwM2M 1.0 or 1.1 server. ``pip install 'device-state-mirror[lwm2m]'``
brings it, and with ``[lwm2m-dtls]`` it speaks DTLS too. That extra is compiled, which needs (on Debian)
``apt-get install autoconf automake gcc libc6-dev make python3-dev``. Two shells, and a thermometer is in the mirror::

    mirror-server run --coap 127.0.0.1:5683
    mirror-device --server coap://127.0.0.1:5683 --name my-sensor --kind thermometer

The device measures by the models of the simulated devices: with the same ``--seed`` and name it measures the same. It
updates its registration after half its lifetime, registers anew where the server does not know it any more, and tries
again with growing pauses (5 to 300 s) where it gets no answer. Ctrl-C deregisters. With ``--queue`` it sleeps 93 s
after its last message, and comes back every 15 minutes, at times of its own: its first sleep may be shorter.
``--count 20 --kind mixed`` makes 20 devices of all kinds in one process.

With DTLS it proves itself with a key, which the mirror prints once::

    mirror-server devices add my-sensor
    export MIRROR_DEVICE_PSK=00ff1a2b
    mirror-device --server coaps://mirror.example:5684 --name my-sensor

A server that ends the session, or was restarted and knows it no more, has the device connect again. Where the device
received nothing for 30 s it sends a message, which a restarted server answers with an alert; without an answer it
connects again too. In queue mode its next contact does that.

One process carries thousands of devices: 19 KiB each, and less than a hundredth of a processor for a thousand of them
that measure every minute.

Programs and tests use ``LwM2MDevice`` (``.device``) on an event loop of theirs. It does nothing by itself but to
answer, and to tell changes that are observed::

    device = LwM2MDevice("coap://127.0.0.1:5683", "my-sensor", [DeviceResource("/3303/0/5700", 21.5)])
    await device.register()
    device.set_value("/3303/0/5700", 22.0)
    device.behaviour.refusals["PUT", "/3311/0/5850"] = "4.03"
    device.sleep()
    await device.wake(from_new_port=True, registers=True)
    await device.deregister()
    await device.close()

``BackgroundFleet`` (``.fleet``) has such devices on a thread of its own, for programs without an event loop.

What it does not have: bootstrap, other transports than UDP, observations by more than one server, and conditions on
values (``gt``, ``lt``, ``st``).

Source: LwM2M core and transport 1.1; RFC 7252 (CoAP), RFC 7641 (Observe), RFC 7959 (block-wise transfer).
"""
