"""Reference server of the device state mirror service."""
