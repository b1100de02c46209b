"""`python -m draintest` is the command `draintest`."""

from .cli import main

if __name__ == "__main__":
    main()
