"""The state that a client shares with its groups: connections, names, notification channel and table readers."""
