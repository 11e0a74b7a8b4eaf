import pytest

from attncli.errors import TooLargeError
from attncli.memory import available_bytes, require_memory

MEMINFO = "MemTotal: 9 kB\nMemAvailable:      4 kB\n"


def system(meminfo: str | None = MEMINFO, limit: str | None = None, used: str = "100"):
    """Give a reader of a system's files; None for a file that is not there."""
    files = {
        "/proc/meminfo": meminfo,
        "/sys/fs/cgroup/memory.max": limit,
        "/sys/fs/cgroup/memory.current": used,
    }

    def read(path: str) -> str:
        if files[path] is None:
            raise FileNotFoundError(path)
        return files[path]

    return read


@pytest.mark.parametrize(
    ("limit", "free"),
    [("1100", 1000), ("9000", 4096), ("max", 4096), (None, 4096)],
)
def test_free_memory_is_the_smaller_of_the_systems_and_the_control_groups(limit: str, free: int) -> None:
    assert available_bytes(system(limit=limit)) == free


def test_where_the_system_does_not_say_the_control_group_counts_or_nothing_is_known() -> None:
    assert available_bytes(system(None, "1100")) == 1000
    assert available_bytes(system("MemTotal: 9 kB")) is None


def test_what_just_fits_is_taken_and_a_byte_more_is_refused() -> None:
    require_memory(1000, "a map", available=lambda: 1000)
    require_memory(10**18, "a map", available=lambda: None)
    with pytest.raises(TooLargeError, match="a map: 1e\\+03 B needed; 999 B are free"):
        require_memory(1000, "a map", available=lambda: 999)
