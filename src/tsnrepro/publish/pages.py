"""The templates of pages, read the same way for the site and for papers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def environment() -> "Environment":
    """Return what renders the templates: everything is escaped, and what is missing an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    return Environment(
        loader=PackageLoader("tsnrepro.publish"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
