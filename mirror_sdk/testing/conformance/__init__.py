"""Tests of the interface over HTTP, for any server; see :mod:`mirror_sdk.testing` for how to run them.

They change what belongs to their key (subscriptions, rules, the notification channel), add simulated devices of their
own where the server has a simulator, and of other devices only read. A second run at the same time needs another key.
"""
