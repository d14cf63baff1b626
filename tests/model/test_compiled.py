import importlib
import sys

import numpy as np
import pytest

from tsnrepro.model import compiled

ENTRY = """
from tsnrepro.model import compiled
from {helper} import write

def make(digest):
    def advance(handed, place):
        if digest != 0:
            write(compiled.memory_of(handed), place)
    return advance

advance = compiled.entry_point(make(compiled.SOURCE_DIGEST))
"""
HELPER = """
from tsnrepro.model.compiled import kernel

@kernel
def write(memory, place):
    memory[place] = {value}
"""


def test_change_in_another_file_is_seen_through_the_disk_cache(tmp_path, monkeypatch):
    """The stored kernel's own file stays as it is; only the digest tells of the change."""
    monkeypatch.syspath_prepend(tmp_path)
    entry, helper = "entry_under_test", "helper_under_test"
    (tmp_path / f"{entry}.py").write_text(ENTRY.format(helper=helper))
    for digest, value in ((11, 5), (22, 7), (11, 5)):
        monkeypatch.setattr(compiled, "SOURCE_DIGEST", digest)
        (tmp_path / f"{helper}.py").write_text(HELPER.format(value=value))
        importlib.invalidate_caches()
        for name in (entry, helper):
            sys.modules.pop(name, None)
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        module = importlib.import_module(entry)
        sys.dont_write_bytecode = before
        memory = np.zeros(4, np.int64)
        module.advance(compiled.handle(memory), 2)
        assert memory.tolist() == [0, 0, value, 0]
    (stats,) = [module.advance.stats]
    assert sum(stats.cache_hits.values()) == 1  # the third time, under the first digest again


def test_entry_point_must_close_over_the_digest():
    with pytest.raises(ValueError, match="SOURCE_DIGEST"):
        compiled.entry_point(lambda memory: None)


def test_memory_of_is_for_compiled_code():
    with pytest.raises(NotImplementedError, match="entry points"):
        compiled.memory_of(0)
