"""Functional coverage: points declared for a configuration, reached by runs, and missing."""
