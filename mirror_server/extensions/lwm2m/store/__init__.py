"""What is stored of real devices: their keys, and their registrations."""
