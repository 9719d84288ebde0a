"""Model files in, graphs out."""
