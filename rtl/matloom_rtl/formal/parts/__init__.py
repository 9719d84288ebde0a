"""Building blocks of claims: channels, queues, loop nests, and opened units for lemmas."""
