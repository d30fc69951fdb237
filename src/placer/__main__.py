"""`python -m placer` is `placer`."""

from placer.cli import main

if __name__ == "__main__":
    main.run()
