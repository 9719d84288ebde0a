"""Rewrites of stages, each from stages to stages."""
