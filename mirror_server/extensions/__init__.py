"""What is beyond the core: each folder is an extension, which may be absent. See :mod:`mirror_server.hooks`."""
