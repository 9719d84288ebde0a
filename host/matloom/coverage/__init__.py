"""Functional coverage: what is declared of a configuration, what runs have met, what is missing."""
