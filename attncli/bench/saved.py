"""A saved benchmark, read back into its tables and plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attncli.bench.views import curves_of
from attncli.documents.checked import body_of, checked, damaged, header_of
from attncli.documents.forms.bench import Benchmark
from attncli.view import Curves


def read_view(parsed: Mapping[str, Any], name: str) -> Curves:
    """Make the view that a benchmark's document was written from.

    Raises:
        ReadError: Something in it is not as it should be.
    """
    document = checked(parsed, Benchmark, name)
    for place, cell in enumerate(document["cells"]):
        if cell["rounds"] and not (cell["median"] and cell["iqr"] is not None):
            raise damaged(name, f"cells[{place}].median", "is missing, though there were rounds")
        if cell["flops_per_second"] is not None and cell["peak_share"] is None:
            raise damaged(name, f"cells[{place}].peak_share", "is missing")
    return curves_of(body_of(parsed), header_of(document))
