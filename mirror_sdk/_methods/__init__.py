"""The methods of a client that stay on the client itself: devices, events, and tables."""
