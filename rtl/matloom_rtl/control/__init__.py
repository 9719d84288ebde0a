"""Control: from command words and registers to instructions at the units, and back to faults."""
