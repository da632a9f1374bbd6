"""The operations of the service: each is one pure decision, one transaction, and effects when that is on disk."""
