"""Definitions, workloads and solutions in the JSON of FlashInfer-Bench and SOL-ExecBench, run as families."""

from cuprof.interop.entry import define, enter

__all__ = ["define", "enter"]
