"""Compare two sides (sweeps, variants, commits, databases, other tools' files) by a method with a stated error rate."""
