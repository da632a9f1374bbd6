"""The history of devices: past events, the state at an earlier time, and the changes between two times."""

import mirror_sdk.arrow_tables  # noqa: F401 - first, because its error explains how to install pandas
