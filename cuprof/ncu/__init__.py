"""Hardware counters: drive Nsight Compute, read its reports, and roll launches up to trials."""
