"""Which installed libraries are older than attncli needs: asked when something fails in a way that nobody foresaw."""

import re
from importlib.metadata import PackageNotFoundError, requires, version


def too_old() -> str | None:
    """Name a library that is missing or older than declared, and the command that mends it; None if there is none."""
    try:
        needed = requires("attncli") or []
    except PackageNotFoundError:  # run from a checkout that was never installed
        return None
    for line in needed:
        found = re.match(r"([\w.-]+)\s*>=\s*([\d.]+)\s*$", line)
        if found is None:
            continue  # of an extra
        name, lowest = found.groups()
        try:
            installed = version(name)
        except PackageNotFoundError:
            return f'needs {name} ≥ {lowest}, which is not installed: pip install "{name}>={lowest}"'
        if _numbers(installed) < _numbers(lowest):
            return f'needs {name} ≥ {lowest}, {installed} is installed: pip install "{name}>={lowest}"'
    return None


def _numbers(text: str) -> tuple[int, ...]:
    """Read a version's numbers, as far as they go.

    >>> _numbers("2.13.0+cpu"), _numbers("5.3rc1") < _numbers("5.10")
    ((2, 13), True)
    """
    parts = [int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", text, maxsplit=1)[0])]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)
