"""Tests of the interface over HTTP, for any server; see ``mirror help testing`` for how to run them.

They change the subscriptions, the rules and the notification channel of their key. They add simulated devices if the
server has a simulator, and only read from other devices. A second run at the same time needs another key.
"""
