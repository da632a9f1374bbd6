"""Conditions on values over time, such as a temperature above 25 for ten minutes: in a table, and live."""

from mirror_sdk.conditions.alarm import Alarm
from mirror_sdk.conditions.condition import Condition

__all__ = ["Alarm", "Condition"]
