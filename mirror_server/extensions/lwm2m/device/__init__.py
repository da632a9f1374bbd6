"""A LwM2M device in Python over CoAP, with and without DTLS: the command ``mirror-device``, and a library for tests."""
