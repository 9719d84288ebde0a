"""Profiles of runs: timeline, causes of cycles, advice, and the files and page that show them."""
