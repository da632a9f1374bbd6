"""The groups of a client's methods: ``client.devices``, ``client.requests`` and others, each made on first use."""
