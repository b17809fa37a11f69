"""Start the jobs of a sweep where a cluster, or this host, has room for them."""
