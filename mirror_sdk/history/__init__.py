"""The history: what happened, the state at an earlier instant, and what changed between two."""

import mirror_sdk.arrow_tables  # noqa: F401 - first, as it says what to install where pandas is missing
