"""Cassettes, which are recorded sessions that can be replayed without a server and without an access key."""

from mirror_sdk.cassette.async_cassette import AsyncCassette
from mirror_sdk.cassette.cassette import Cassette
from mirror_sdk.cassette.modes import Mode, address_of, is_played

__all__ = ["AsyncCassette", "Cassette", "Mode", "address_of", "is_played"]
