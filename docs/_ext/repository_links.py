"""Links to Python files of the repository, which lie outside the documentation.

On a page ``[iperf3.py](../src/tsnrepro/tools/iperf3.py)`` leads to the file where the page is read
as a file. In the site it leads to the module's page of the reference where there is one, and
otherwise, as links to all other files, to a copy. A link to no file is a warning, as any dead link.
"""

import re
from pathlib import Path
from typing import Any

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

DOCS = Path(__file__).resolve().parents[1]
SOURCES = DOCS.parent / "src"
DOCUMENTED = {
    *re.findall(r"^   (tsnrepro[\w.]*)$", (DOCS / "reference/python.md").read_text("utf-8"), re.M)
}


class ModuleLinks(SphinxTransform):
    """Turn links to Python files below src/ into references to their modules."""

    default_priority = 5  # before files are collected for copying

    def apply(self, **kwargs: Any) -> None:
        """Replace the links of one page."""
        for link in list(self.document.findall(addnodes.download_reference)):
            _, path = self.env.relfn2path(link["reftarget"], self.env.docname)
            module = module_of(Path(path))
            if module in DOCUMENTED:
                about = {"refdomain": "py", "reftype": "mod", "reftarget": module}
                reference = addnodes.pending_xref(
                    "",
                    *link.children,
                    **about,
                    refexplicit=True,
                    refwarn=True,
                    refdoc=self.env.docname,
                )
                reference.source, reference.line = link.source, link.line
                link.replace_self(reference)


def module_of(path: Path) -> str:
    """Return the name of the module in a file; empty where it is none of src/."""
    resolved = path.resolve()
    if resolved.suffix != ".py" or not resolved.is_relative_to(SOURCES) or not resolved.is_file():
        return ""
    parts = resolved.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(ModuleLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
