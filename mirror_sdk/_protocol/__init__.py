"""The protocol of the service: requests, responses and the notification log, which delivers responses of devices."""
