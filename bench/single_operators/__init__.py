"""Random TensorFlow Lite files of one operator each, as odd as tools write them, on three runtimes.

TensorFlow Lite Micro, LiteRT's reference kernels, and Matloom: equal where one of the two runs a
file, one sentence where neither does. ``python -m single_operators --help`` from `bench`.
"""
