"""Finds, prepares and runs the external programs that Matloom uses."""
