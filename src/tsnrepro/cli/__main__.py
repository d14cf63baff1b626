"""``python -m tsnrepro.cli``: the command line without its entry point."""

from tsnrepro.cli import main

main()
