"""Conformance tests of the HTTP interface, for any server. See ``mirror help testing`` for how to run them.

The tests change the subscriptions, the rules and the notification channel of their access key. They add simulated
devices if the server has a simulator, and only read from other devices. A second run at the same time needs another
access key.
"""
