"""Invalid request bodies, and values of types that few members accept."""


def with_member(value):
    """Return a function that adds a member to the first object of an otherwise valid body."""
    return lambda text: text.encode().replace(b"{", b'{"x": ' + value + b", ", 1)


UNREADABLE = {
    "cut": lambda _: b"{",
    "empty": lambda _: b"",
    "null": lambda _: b"null",
    "a text": lambda _: b'"text"',
    "deep list": lambda _: b"[" * 100_000 + b"]" * 100_000,
    "deep object": lambda _: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "bytes": lambda _: b"\xff\xfe",
    "utf-16": lambda text: text.encode("utf-16"),
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "NUL": lambda text: text.encode() + b"\0",
    "two": lambda text: text.encode() + text.encode(),
    "no UTF-8": with_member(b'"\xff"'),
    "surrogate": with_member(b'"\\ud800"'),
    "quotes": lambda text: text.replace("{", "{'x': 1, ", 1).encode(),
    "NaN": with_member(b"NaN"),
    "Infinity": with_member(b"-Infinity"),
    "1e99999": with_member(b"1e99999"),
    "digits": with_member(b"9" * 5000),
    "deep member": with_member(b"[" * 1000 + b"]" * 1000),
}

WRONG_TYPES = [None, True, 1.5, "", "x", [], {"a": {}}, "\0", "x" * 70_000]
