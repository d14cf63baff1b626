"""Damaged deposits and tarballs: an error message, or all files intact."""

import gzip
import hashlib
import io
import shutil

import pytest
from damage import NUMBERS, damaged_bytes, read_each

from tsnrepro.common.errors import RecordError
from tsnrepro.papers.tarball import read_tarball, write_tarball
from tsnrepro.report.archive import unpacked

FILES = {"results/run.json": b'{"a": 1}\n', "data/raw/trial.json": b"[]\n", "LICENSE": b"MIT\n"}


def packed(files, sums=None):
    """Return an archive of some files, its list of checksums first."""
    sums = sums or "".join(
        f"{hashlib.sha256(content).hexdigest()}  {place}\n" for place, content in files.items()
    )
    target = io.BytesIO()
    inside = {"SHA256SUMS": sums.encode(), **files}
    write_tarball(target, {f"top/{place}": content for place, content in inside.items()})
    return target.getvalue()


def as_packed(content):
    return content


def as_tar(content):
    """Compress the content, which is that of a tarball."""
    return gzip.compress(content, compresslevel=1, mtime=0)


FORMS = {
    "compressed": (packed(FILES), as_packed),
    # Without the zeros at its end, which most damage would hit.
    "plain": (gzip.decompress(packed(FILES))[:4096], as_tar),
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("form", FORMS)
def test_archives(tmp_path, form, number):
    sound, wrapped = FORMS[form]
    archive = tmp_path / "some.tar.gz"
    archive.write_bytes(packed(FILES))
    unpacked(archive, tmp_path / "sound")

    def read(content):
        archive.write_bytes(wrapped(content))
        try:
            folder = unpacked(archive, tmp_path / "files")
            assert any(path.is_file() for path in folder.rglob("*"))
        finally:
            shutil.rmtree(tmp_path / "files", ignore_errors=True)

    assert read_each(damaged_bytes(sound, number), read)
    assert {path.name for path in tmp_path.iterdir()} == {"some.tar.gz", "sound"}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("form", FORMS)
def test_tarballs(tmp_path, form, number):
    sound, wrapped = FORMS[form]
    path = tmp_path / "some.tar.gz"

    def read(content):
        path.write_bytes(wrapped(content))
        read_tarball(path)

    assert read_each(damaged_bytes(sound, number), read, names=path.name)


def test_a_huge_list_of_checksums_is_not_read(tmp_path):
    archive = tmp_path / "large.tar.gz"
    archive.write_bytes(packed(FILES, sums="0" * (65 << 20)))
    with pytest.raises(RecordError, match="does not begin with a list of checksums"):
        unpacked(archive, tmp_path / "files")
