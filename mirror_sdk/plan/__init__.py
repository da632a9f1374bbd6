"""Plans: many writes that are looked at before anything is sent, sent carefully, and can be undone.

``client.plan(table)`` makes one. Needs pandas and pyarrow, the ``frames`` extra.
"""

import mirror_sdk._pandas  # noqa: F401
from mirror_sdk.plan.async_plan import AsyncPlan
from mirror_sdk.plan.checks import Check, Decision
from mirror_sdk.plan.plan import Plan
from mirror_sdk.plan.table import PLAN_SCHEMA

__all__ = ["PLAN_SCHEMA", "AsyncPlan", "Check", "Decision", "Plan"]
