"""Plans, which check many writes before anything is sent, send them in steps, and can undo them."""

import mirror_sdk.frames  # noqa: F401 - first, as it says what to install where pandas is missing
from mirror_sdk.plan.async_plan import AsyncPlan
from mirror_sdk.plan.checks import Check, Decision
from mirror_sdk.plan.plan import Plan
from mirror_sdk.plan.plan_table import PLAN_SCHEMA

__all__ = ["PLAN_SCHEMA", "AsyncPlan", "Check", "Decision", "Plan"]
