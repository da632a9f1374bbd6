"""The examples of a topic of the client's manual."""

import doctest
import re
from collections.abc import Mapping
from typing import Any

from mirror_sdk.cli.help_command import TOPICS

FENCE = re.compile("^```.*$", re.MULTILINE)


def topic_examples(topic: str, names: Mapping[str, Any] | None = None) -> doctest.DocTest:
    """Return all examples of a topic as one test."""
    # Otherwise the end of a block would be part of the expected output.
    text = FENCE.sub("", TOPICS[topic].read_text())
    return doctest.DocTestParser().get_doctest(text, dict(names or {}), topic, str(TOPICS[topic]), 0)
