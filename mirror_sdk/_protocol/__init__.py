"""What talks to the service: requests and their answers, the notification log, and the answers that come by it."""
