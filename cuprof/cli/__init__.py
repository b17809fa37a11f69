"""The commands: one module each, with `main(argv) -> exit code`; `cuprof.cli.main` finds them."""
