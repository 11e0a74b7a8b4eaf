"""What ``find`` found, read back into its table and map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attncli.documents.checked import body_of, checked, damaged, header_of
from attncli.documents.forms.find import FoundAlignments, FoundLinks, FoundPairs
from attncli.find.document import found_of
from attncli.view import HeadRanking


def read_view(parsed: Mapping[str, Any], name: str) -> HeadRanking:
    """Make the view that a document of ``find`` was written from.

    Raises:
        ReadError: Something in it is not as it should be.
    """
    document: FoundLinks | FoundPairs | FoundAlignments
    if parsed.get("by") == "accuracy":
        document = checked(parsed, FoundPairs, name)
    elif parsed.get("by") == "aer":
        document = checked(parsed, FoundAlignments, name)
    else:
        document = checked(parsed, FoundLinks, name)
    for place, entry in enumerate(document.get("maps", ())):
        if [len(row) for row in entry["values"]] != [len(entry["heads"])] * len(entry["layers"]):
            raise damaged(name, f"maps[{place}].values", "is no table of its layers and heads")
    return found_of(body_of(parsed), header_of(document))
