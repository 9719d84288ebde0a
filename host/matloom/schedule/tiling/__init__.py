"""Cuts stages into tiles, and puts the tiles into order."""
