"""Run attncli as ``python -m attncli``."""

from attncli.cli import run

if __name__ == "__main__":
    run()
