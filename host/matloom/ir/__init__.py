"""Graphs: the compiler's representation of a network, with its rules and its text form."""
