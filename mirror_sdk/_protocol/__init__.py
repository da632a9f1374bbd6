"""The protocol of the service: requests, responses and the notification log, which brings responses of devices."""
