"""Rewrites that turn stages into better stages."""
