"""Stages cut into tiles, and the order in which tiles run."""
