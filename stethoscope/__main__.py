"""`python -m stethoscope` is the same as the `stethoscope` command."""

from stethoscope.cli.main import main

if __name__ == "__main__":
    main()
