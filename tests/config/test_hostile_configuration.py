"""Every file of the configuration, damaged in ten thousand ways: one clear sentence, or read."""

import pytest
from damage import NUMBERS, damaged_yaml, read_each_file
from yaml_readers import READERS

from tsnrepro.common.repository import root
from tsnrepro.published.documents import PACKAGE_FILE

# Long files whose entries are of few kinds: so many of the first ones are damaged.
BEGINNINGS = {
    "data/published/claims.yaml": ("\n  - id:", 8),
    "data/published/public-set-checks.yaml": ("\n  - id:", 12),
    "paper/glossary.yaml": ("\n  - ", 12),
}


def sound_file(name):
    """Return a file of the repository, or the beginning of it."""
    sound = (root() / name).read_text(encoding="utf-8")
    if name in BEGINNINGS:
        item, count = BEGINNINGS[name]
        sound = item.join(sound.split(item)[:count]) + "\n"
    return sound.encode()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", READERS)
def test_files_of_the_configuration(name, number, tmp_path):
    sound, read = sound_file(name), READERS[name]
    (tmp_path / PACKAGE_FILE).write_bytes((root() / "data/published" / PACKAGE_FILE).read_bytes())
    path = tmp_path / name.rsplit("/", 1)[-1]
    path.write_bytes(sound)
    read(path)
    assert read_each_file(damaged_yaml(sound, number), path, lambda: read(path))
