"""External programs that Matloom uses: finds, prepares and runs them."""
