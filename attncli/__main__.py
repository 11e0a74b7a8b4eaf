"""Run attncli as ``python -m attncli``."""

from attncli.cli.main import run

if __name__ == "__main__":
    run()
