"""Pseudonyms with a key: equal strings have equal pseudonyms, which cannot be reversed without the key."""

from __future__ import annotations

import hmac

from mirror_sdk.errors import InvalidValue

SHORTEST_KEY_BYTES = 16
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Without letters that look like digits or like each other."""
_LENGTH = 12
_NUMBER_BITS = 48
"""So that a number stays the same as a 64-bit float."""


class Pseudonyms:
    """Creates pseudonyms with HMAC-SHA-256. Neither the key nor the original strings are visible in it.

    Args:
        key: A string or bytes, of at least 16 bytes.

    Raises:
        InvalidValue: The key has another type, or is shorter.
    """

    def __init__(self, key: str | bytes) -> None:
        if not isinstance(key, str | bytes):
            raise InvalidValue(f"the key is a {type(key).__name__}; pass a string or bytes")
        secret = key.encode(errors="surrogateescape") if isinstance(key, str) else key
        if len(secret) < SHORTEST_KEY_BYTES:
            raise InvalidValue(
                f"the key has {len(secret)} byte{'' if len(secret) == 1 else 's'}, so others could guess it and find"
                f" every name; pass {SHORTEST_KEY_BYTES} or more random bytes, such as secrets.token_hex(32), and"
                " keep them secret"
            )
        self._mac = hmac.new(secret, digestmod="sha256")

    def __repr__(self) -> str:
        return "<Pseudonyms>"

    def __reduce__(self) -> str:
        raise TypeError("Pseudonyms cannot be pickled, because of the key; create them again from the key")

    def text(self, kind: str, word: str, original: str | bytes) -> str:
        """Return the pseudonym of a string: a word and twelve digits and letters, however long the text is."""
        # Twelve digits of 5 bits each use 60 of these 64 bits.
        number = int.from_bytes(self._digest(kind, original)[:8], "big")
        return f"{word}-{''.join(_DIGITS[(number >> 5 * digit) & 31] for digit in range(_LENGTH))}"

    def number(self, kind: str, original: float) -> int:
        """Return the pseudonym of a number: a whole number below 2**48."""
        # Adding 0.0 makes -0.0 the number that it is equal to.
        return int.from_bytes(self._digest(kind, repr(float(original) + 0.0))[: _NUMBER_BITS // 8], "big")

    def _digest(self, kind: str, original: str | bytes) -> bytes:
        mac = self._mac.copy()
        # A zero byte ends the kind; no kind contains one.
        mac.update(kind.encode() + b"\0")
        mac.update(original.encode(errors="surrogatepass") if isinstance(original, str) else original)
        return mac.digest()
