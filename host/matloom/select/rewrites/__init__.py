"""Rewrites of the stages of an engine run, which make it faster and change no results."""
