"""Pseudonymization of tables.

It determines which data in a table are personal, and replaces them before you share the table.
"""

from mirror_sdk.privacy.personal_columns import PERSONAL_COLUMNS, PERSONAL_RESOURCES, PersonalColumn, PersonalResource
from mirror_sdk.privacy.pseudonymize_tables import pseudonymize

__all__ = [
    "PERSONAL_COLUMNS",
    "PERSONAL_RESOURCES",
    "PersonalColumn",
    "PersonalResource",
    "pseudonymize",
]
