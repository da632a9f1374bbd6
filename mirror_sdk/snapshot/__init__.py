"""The fleet snapshot: the state table of many devices, all as of one instant."""

import mirror_sdk._pandas  # noqa: F401
