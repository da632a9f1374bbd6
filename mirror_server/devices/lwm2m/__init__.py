"""Real devices, by LwM2M 1.0 and 1.1 over CoAP, with and without DTLS."""
