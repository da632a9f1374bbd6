"""A LwM2M device in Python over CoAP, with or without DTLS: the command ``mirror-device``, and a library for tests."""
