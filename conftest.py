"""Before any test: let the shapes in annotations be checked whenever a function of `attncli.attention` is called."""

from __future__ import annotations

from jaxtyping import install_import_hook

# It must stand here, in the first file that pytest imports: a module imported earlier would stay unchecked.
install_import_hook("attncli.attention", "beartype.beartype")
