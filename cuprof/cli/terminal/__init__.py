"""What the user sees: progress while a sweep runs, tables when it is done."""
