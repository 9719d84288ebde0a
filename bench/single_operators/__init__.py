"""Random TensorFlow Lite files of one operator, with oddities of real files, on three runtimes.

TensorFlow Lite Micro, LiteRT's reference kernels, and Matloom must agree where one of the first two
runs a file; a file that neither runs must be refused with one sentence.
``python -m single_operators --help`` from `bench`.
"""
