"""Pseudonyms that are computed with a key.

Equal strings have equal pseudonyms, which cannot be reversed without the key.
"""

from __future__ import annotations

import hmac

from mirror_sdk.errors import InvalidValue

SHORTEST_KEY_BYTES = 16
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""The digits of pseudonyms, without letters that look like digits or like each other."""
_LENGTH = 12
_NUMBER_BITS = 48
"""The number of bits of a pseudonym of a number. It is small enough for a 64-bit float to store the number exactly."""


class Pseudonyms:
    """A generator of pseudonyms with HMAC-SHA-256.

    Its string form does not reveal the key or the original strings.

    Args:
        key: A string or bytes object of at least 16 bytes.

    Raises:
        InvalidValue: The key has the wrong type, or it is too short.
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
        """Return the pseudonym of a string, which consists of a word and twelve digits and letters.

        Its length does not depend on the length of the string.
        """
        # Twelve digits of 5 bits each use 60 of these 64 bits.
        number = int.from_bytes(self._digest(kind, original)[:8], "big")
        return f"{word}-{''.join(_DIGITS[(number >> 5 * digit) & 31] for digit in range(_LENGTH))}"

    def number(self, kind: str, original: float) -> int:
        """Return the pseudonym of a number, which is an integer below 2**48."""
        # Adding 0.0 converts -0.0 to 0.0, to which it is equal.
        return int.from_bytes(self._digest(kind, repr(float(original) + 0.0))[: _NUMBER_BITS // 8], "big")

    def _digest(self, kind: str, original: str | bytes) -> bytes:
        mac = self._mac.copy()
        # A zero byte ends the kind. No kind contains a zero byte.
        mac.update(kind.encode() + b"\0")
        mac.update(original.encode(errors="surrogatepass") if isinstance(original, str) else original)
        return mac.digest()
