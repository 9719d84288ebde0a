"""Instructions of a plan, with the waits between them."""
