"""The ``mirror`` command: what the client does, in a shell.

``mirror --help`` begins with examples, ``mirror COMMAND --help`` has some of each. All commands but ``lab`` and
``help`` ask the mirror that ``API_HOST`` and ``API_KEY`` lead to; without ``API_HOST`` that is
``http://127.0.0.1:8080``::

    mirror devices --state registered
    mirror write light-01 /3311/0/5851 40
    mirror execute light-01 /3/0/4
    mirror --timeout 60 --max-retries 5 snapshot fleet.parquet

``--timeout`` and ``--max-retries`` in front of a command limit each of its calls, as those of a client do. The exit
status is 0 where all was done, 1 where something was refused or failed, 2 for wrong usage, and 3 where no answer came
in time.

Results go to standard output, all else that is said to standard error: also that a list is empty, or that nothing comes
of what is watched, and what to do then. ``--json`` and ``--csv`` of nothing are an empty list and the heading.

What is to be shared gets pseudonyms with ``--pseudonymize`` (see ``mirror help privacy``). The key for them comes from
``MIRROR_PSEUDONYM_KEY``, a file or the terminal, never from the command line, which other users of the machine see::

    mirror snapshot shared.parquet --pseudonymize --pseudonym-key-file ~/november.key

For programs there are ``--json`` and ``--csv``. In CSV a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
line end and is no number has an apostrophe in front, so that no spreadsheet executes it; so has one that begins with
apostrophes before these, and to take one away gives back what it was. A table out, and one in::

    mirror drift --csv > drift.csv
    mirror plan wanted.csv --apply
"""

from mirror_sdk.cli.group import main

__all__ = ["main"]
