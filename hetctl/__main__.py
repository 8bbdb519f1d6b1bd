"""`python -m hetctl`."""

from hetctl.cli.main import main

main()
