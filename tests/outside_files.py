"""Files outside a clone that some tests read, and the skip that names what is missing."""

import os
from pathlib import Path

import pytest

from tsnrepro.common.repository import root

DOCUMENTS = root().parent / "shared" / "seeds"
"""The five documents as text."""
PUBLIC_SET = Path(os.environ.get("TSNREPRO_PUBLIC_SET") or root() / "nowhere")
"""The authors' public data set, https://github.com/hwkim3330/d10test/."""

REASON = "files outside the clone are missing: "
NO_DOCUMENTS = f"{REASON}the documents ({DOCUMENTS})"
NO_PUBLIC_SET = f"{REASON}the authors' public data set (TSNREPRO_PUBLIC_SET)"

needs_documents = pytest.mark.skipif(not DOCUMENTS.is_dir(), reason=NO_DOCUMENTS)
needs_public_set = pytest.mark.skipif(not PUBLIC_SET.is_dir(), reason=NO_PUBLIC_SET)


def missing_files(report: pytest.TestReport) -> str:
    """Return which files a skipped test needs; empty where it was not skipped for these."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).partition(REASON)[2]
    return ""
