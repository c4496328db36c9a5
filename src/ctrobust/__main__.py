"""`ctrobust` and `python -m ctrobust`: Ctrl-C ends them quietly also while the command line is still being loaded."""

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from ctrobust.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
