"""The commands: one module each, with `main(argv) -> exit code`; `cuprof.commands.main` finds them."""
