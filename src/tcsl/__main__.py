"""`python -m tcsl`."""

from tcsl.cli import main

main()
