"""Terminal output: tables and progress."""
