"""Programs of the machine that Matloom drives: found, prepared and run."""
