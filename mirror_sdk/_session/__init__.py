"""The state that a client shares with its groups: connections, names, the notification channel, table readers."""
