"""The state that a client shares with its resources: connections, names, the notification channel, table readers."""
