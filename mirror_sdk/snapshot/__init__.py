"""The fleet snapshot: the state of many devices as of one instant, in one response."""

import mirror_sdk.arrow_tables  # noqa: F401 - first, as it says what to install where pyarrow is missing
