"""Keep sweeps, trials, timings and counters in SQLite or PostgreSQL."""
