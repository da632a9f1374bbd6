"""The protocol of the service: its requests and responses, and the notification log with the responses of devices."""
