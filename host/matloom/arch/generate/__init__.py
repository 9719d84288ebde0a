"""Generated files: the C header and the reference pages, from the tables of `matloom.arch`."""
