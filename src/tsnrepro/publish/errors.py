"""What can be wrong between results and a page."""

from tsnrepro.errors import TsnreproError


class PublishError(TsnreproError):
    """A value, file or manuscript that cannot be printed."""
