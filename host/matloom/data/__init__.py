"""Networks and data that the package carries for its demonstration."""
