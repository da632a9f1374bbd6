"""The text form of conditions, such as ``/3303/0/5700 > 25 for 10min & /3303/1/5700 < 5``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, TypeAlias

from mirror_sdk.conditions.clause import Clause, Scalar, clause
from mirror_sdk.errors import InvalidValue

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[&|()]|[<>]=?|=+|[^\s&|()<>="]+|.)')
_BOOLEANS = {"true": True, "false": False}
_EXAMPLES = {
    "=": "= on",
    "outside": "outside 10..20",
    "silent": "silent for 1h",
    "differs": "differs from desired for 5min",
    "until": "> 25 until below 24",
}
"""An example for an error after each of these words."""
_WORDS = {
    "silent_for": "silent for ",
    "differs_from_desired_for": "differs from desired for ",
    "for_": "for ",
    "until_below": "until below ",
    "until_above": "until above ",
    "above": "> ",
    "below": "< ",
    "outside": "outside ",
}
"""The words of the text form for the arguments in error messages."""
_MAX_DEPTH = 50


class Combination(NamedTuple):
    """Several conditions that are combined with ``&`` or ``|``."""

    operator: str
    parts: tuple[Expression, ...]


Expression: TypeAlias = "Clause | Combination"


def clauses_of(expression: Expression) -> tuple[Clause, ...]:
    """Return the clauses of a condition in the order of its text form."""
    if isinstance(expression, Clause):
        return (expression,)
    return tuple(one for part in expression.parts for one in clauses_of(part))


def format_expression(expression: Expression) -> str:
    """Return the text form of a condition, which :func:`parse` reads."""
    if isinstance(expression, Clause):
        return str(expression)
    texts = [
        f"({format_expression(part)})" if isinstance(part, Combination) else str(part) for part in expression.parts
    ]
    return f" {expression.operator} ".join(texts)


def parse(text: str) -> Expression:
    """Read the text form of a condition.

    Raises:
        InvalidValue: The text is not a condition.
    """
    parser = _Parser(text)
    found = parser.any_of()
    if parser.peek():
        parser.fail("the end, & or |")
    return found


class _Parser:
    """A recursive descent parser. ``&`` binds more tightly than ``|``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [match[1] for match in _TOKEN.finditer(text) if match[1].strip()]
        self._next = 0
        self._depth = 0
        self._example = "> 25 for 10min"

    def peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def any_of(self) -> Expression:
        return self._combined("|", self._all_of)

    def _all_of(self) -> Expression:
        return self._combined("&", self._part)

    def _combined(self, operator: str, read: Callable[[], Expression]) -> Expression:
        parts = [read()]
        while self.peek() == operator:
            self._pop()
            parts.append(read())
        return parts[0] if len(parts) == 1 else Combination(operator, tuple(parts))

    def _part(self) -> Expression:
        if self.peek() != "(":
            return self._clause()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self.fail(f"at most {_MAX_DEPTH} nested parentheses")
        self._pop()
        found = self.any_of()
        self._expect(")")
        self._depth -= 1
        return found

    def _clause(self) -> Clause:
        if not self.peek().startswith("/"):
            self.fail("a path such as /3303/0/5700")
        path = self._pop()
        arguments = self._test()
        # Both orders are accepted, but each part only once.
        parts = ["for", "until"]
        while self.peek() in parts:
            word = self._pop()
            parts.remove(word)
            if word == "for":
                arguments["for_"] = self._duration()
            else:
                self._example = _EXAMPLES[word]
                side = self._expect("below", "above")
                arguments[f"until_{side}"] = self._number(self._pop())
        try:
            return clause(path, **arguments)
        except InvalidValue as exc:
            message = re.sub(rf"\b({'|'.join(_WORDS)})=", lambda match: _WORDS[match[1]], str(exc))
            raise InvalidValue(f"condition {self._text!r}: {message}") from exc

    def _duration(self) -> str:
        """Return a duration, which may contain spaces, as in ``10 minutes``."""
        words = [self._pop()]
        while self.peek() not in ("", "for", "until", "&", "|", ")"):
            words.append(self._pop())
        return " ".join(words)

    def _test(self) -> dict[str, Any]:
        word = self._expect(">", "<", "=", "outside", "changed", "silent", "differs")
        self._example = _EXAMPLES.get(word, self._example)
        if word in (">", "<"):
            return {"above" if word == ">" else "below": self._number(self._pop())}
        if word == "=":
            return {"equals": _value(self._pop())}
        if word == "outside":
            low, dots, high = self._pop().partition("..")
            if not dots:
                self.fail("two limits such as 10..20")
            return {"outside": (self._number(low), self._number(high))}
        if word == "changed":
            return {"changed": True}
        if word == "differs":
            self._expect("from")
            self._expect("desired")
        self._expect("for")
        return {"silent_for" if word == "silent" else "differs_from_desired_for": self._duration()}

    def _pop(self) -> str:
        token = self.peek()
        if not token:
            self.fail("more text")
        self._next += 1
        return token

    def _expect(self, *words: str) -> str:
        if self.peek() not in words:
            self.fail(" or ".join(words))
        return self._pop()

    def _number(self, token: str) -> float:
        try:
            return float(token)
        except ValueError:
            self._next -= 1
            self.fail("a number")

    def fail(self, expected: str) -> NoReturn:
        found = repr(self.peek()) if self.peek() else "the end"
        raise InvalidValue(
            f"condition {self._text!r}: expected {expected}, found {found}; write one like"
            f" '/3303/0/5700 {self._example}'"
        )


def _value(token: str) -> Scalar:
    """Return the value of ``=``: a number, ``true``, ``false``, or a string with or without quotation marks."""
    if token.startswith('"') and token.endswith('"') and len(token) > 1:
        try:
            return str(json.loads(token))
        except ValueError:
            raise InvalidValue(f"the string {token} is not valid JSON; escape \\ and quotation marks with \\") from None
    if token in _BOOLEANS:
        return _BOOLEANS[token]
    try:
        return float(token)
    except ValueError:
        return token
