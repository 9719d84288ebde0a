"""Functional coverage: which of the points declared for a configuration have runs reached."""
