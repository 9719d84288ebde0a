"""Parts of claims: channels, queues, loop nests, and units opened for their lemmas."""
