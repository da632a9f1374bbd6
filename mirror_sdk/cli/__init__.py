"""The ``mirror`` command: the client in a shell.

Some of its commands::

    mirror devices --state registered
    mirror write light-01 /3311/0/5851 40
    mirror execute light-01 /3/0/4
    mirror --timeout 60 --max-retries 5 snapshot fleet.parquet

``mirror --help`` and ``mirror COMMAND --help`` show more examples. All commands except ``lab`` and ``help`` use the
mirror of ``API_HOST`` and ``API_KEY``. Without ``API_HOST`` that is ``http://127.0.0.1:8080``.

``--timeout`` and ``--max-retries`` before a command limit each of its calls, as they do for a client.

The exit status is 0 if everything succeeded, 1 if something was rejected or failed, 2 for wrong usage, and 3 if no
response came in time.

Results go to standard output, messages to standard error. If a list is empty or a watch receives nothing, a message
says so, and what to do next.

Tables in and out
-----------------

Use ``--json`` or ``--csv`` for output that programs read. An empty result is an empty list or the heading alone::

    mirror drift --csv > drift.csv
    mirror plan wanted.csv --apply

In CSV an apostrophe precedes each cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end, except
numbers. So no spreadsheet executes a cell. Cells that begin with apostrophes before these characters get one more.
Remove one apostrophe to restore the original.

``--pseudonymize`` replaces personal data before you share a table (see ``mirror help privacy``). The key comes from
``MIRROR_PSEUDONYM_KEY``, a file or the terminal. It never comes from the command line, which other users of the machine
can see::

    mirror snapshot shared.parquet --pseudonymize --pseudonym-key-file ~/november.key

A mirror to try things out
--------------------------

``mirror lab`` starts a mirror with simulated devices, and JupyterLab with copies of the notebooks::

    mirror lab --database fleet.db
    mirror lab --widget watcher

``--database FILE`` keeps the fleet and its access key for the next start. ``--widget watcher`` opens the events of all
devices next to the notebook, ``--widget fleet`` all devices. A tile in JupyterLab's launcher opens the mirror's web
page.

A notebook starts its own mirror if none is running. Time passes in the notebooks, so a mirror that is already running
has to use ``--clock manual``, as in ``mirror-server demo --clock manual``.
"""

from mirror_sdk.cli.group import main

__all__ = ["main"]
