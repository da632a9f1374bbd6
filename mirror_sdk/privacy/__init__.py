"""Pseudonymized tables: what in a table is personal, why, and how it is replaced before you share it."""

from mirror_sdk.privacy.personal_columns import PERSONAL_COLUMNS, PERSONAL_RESOURCES, PersonalColumn, PersonalResource
from mirror_sdk.privacy.pseudonymize_tables import pseudonymize

__all__ = [
    "PERSONAL_COLUMNS",
    "PERSONAL_RESOURCES",
    "PersonalColumn",
    "PersonalResource",
    "pseudonymize",
]
