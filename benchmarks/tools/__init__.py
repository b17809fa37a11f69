"""One module a tool and workload, each run in a process of its own by the scripts one folder up."""
