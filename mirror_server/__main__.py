"""``python -m mirror_server`` is the ``mirror-server`` command."""

from mirror_server.cli import main

main()
