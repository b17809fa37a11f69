"""Run whole executables, as they are handed in: files in, files or printed numbers out."""
