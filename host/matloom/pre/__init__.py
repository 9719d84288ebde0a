"""Preprocessing in front of a network: turns images and sound into its inputs.

Each definition is a complete, immutable value; `matloom.load(..., preprocess=...)` puts
it before an input, and program files keep it.
"""

from matloom.pre.definitions import (
    attach,
    dumps,
    loads,
    prepare_inputs,
    preprocessing_of,
    single_input,
)
from matloom.pre.image import Image
from matloom.pre.mel import LogMel, Mfcc
from matloom.pre.micro_frontend import MicroFrontend
from matloom.pre.preprocessing import Preprocessing

__all__ = [
    "Image",
    "LogMel",
    "Mfcc",
    "MicroFrontend",
    "Preprocessing",
    "attach",
    "dumps",
    "loads",
    "prepare_inputs",
    "preprocessing_of",
    "single_input",
]
