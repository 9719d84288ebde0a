"""The compiler's view of a network: a graph of tensors and operators, its rules and its text."""
