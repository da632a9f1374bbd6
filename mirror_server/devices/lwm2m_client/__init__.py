"""A LwM2M device in Python over CoAP, with and without DTLS, for people who have no hardware and for tests.

A device that registers, is read and observed, and tells what changes::

    from mirror_server.devices.lwm2m_client.device import LwM2MDevice
    from mirror_server.devices.lwm2m_client.resources import DeviceResource

    device = LwM2MDevice("coap://127.0.0.1:5683", "my-sensor", [DeviceResource("/3303/0/5700", 21.5)])
    await device.register()
    device.set_value("/3303/0/5700", 22.0)
    device.sleep()
    await device.wake(from_new_port=True, registers=True)
    await device.deregister()
    await device.close()

Source: LwM2M core and transport 1.1; RFC 7252, RFC 7641, RFC 7959.
"""
