"""What a client shares with its resources: connections, names, the notification channel, and reading of tables."""
