"""The fleet snapshot, which is the state of many devices at one point in time, in one response."""

import mirror_sdk.arrow_tables  # noqa: F401 - first, as it says what to install where pyarrow is missing
