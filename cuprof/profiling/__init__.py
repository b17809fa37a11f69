"""What any profiler offers and is told: its contract, the registry, tasks of the profiled process, and metrics."""
