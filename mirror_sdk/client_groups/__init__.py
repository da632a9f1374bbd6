"""The groups of methods of a client, such as ``client.devices``. Each group is created when it is first used."""
