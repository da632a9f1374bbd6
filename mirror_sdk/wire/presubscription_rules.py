"""The list of all presubscription rules as a model, for the OpenAPI description. Source: specification E3; wire.md 3.

This is a separate module, because ``pydantic.RootModel`` is slow to import and only a server needs it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, RootModel

from mirror_sdk.wire.subscriptions import MAX_RULES, PresubscriptionRule


class PresubscriptionRules(RootModel[Annotated[list[PresubscriptionRule], Field(max_length=MAX_RULES)]]):
    """All presubscription rules of an application in their stored order."""

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)
