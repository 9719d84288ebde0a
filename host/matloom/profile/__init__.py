"""Profiles of a run: timeline, causes, advice, and the files and the page that show them."""
