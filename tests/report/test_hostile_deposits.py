"""Damaged deposits and tarballs: an error message, or all files intact."""

import gzip
import hashlib
import io
import shutil
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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


def packed_members(*members):
    """Return an archive of a list of checksums and some members, each a header and its content."""
    target = io.BytesIO()
    with gzip.GzipFile(fileobj=target, mode="wb") as zipped:
        nothing = hashlib.sha256().hexdigest()
        sums = "".join(f"{nothing}  {entry.name.removeprefix('top/')}\n" for entry, _ in members)
        listed = tarfile.TarInfo("top/SHA256SUMS")
        listed.size = len(sums)
        for entry, content in [(listed, sums.encode()), *members]:
            zipped.write(entry.tobuf(tarfile.GNU_FORMAT))
            for part in content if not isinstance(content, bytes) else [content]:
                zipped.write(part)
            zipped.write(bytes(-entry.size % tarfile.BLOCKSIZE))
        zipped.write(bytes(2 * tarfile.BLOCKSIZE))
    return target.getvalue()


def member(size=0, kind=tarfile.REGTYPE, name="top/zeros", link=""):
    entry = tarfile.TarInfo(name)
    entry.size, entry.type, entry.linkname = size, kind, link
    return entry


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (member(8 << 30), "more than a hundred times its size"),
        (member(8 << 30, tarfile.XHDTYPE), "a header of 8589934592 bytes"),
        (member(8 << 30, tarfile.GNUTYPE_LONGNAME), "a header of 8589934592 bytes"),
        (member(512, tarfile.GNUTYPE_SPARSE), "not a regular file"),
    ],
    ids=["file", "pax", "name", "sparse"],
)
def test_what_unpacks_to_much_more_is_refused_before_it_is_read(tmp_path, entry, message):
    archive = tmp_path / "some.tar.gz"
    archive.write_bytes(packed_members((entry, bytes(512))))
    with pytest.raises(RecordError, match=message):
        unpacked(archive, tmp_path / "files")


def test_tables_of_many_equal_rows_are_not_read(tmp_path):
    archive, table = tmp_path / "some.tar.gz", tmp_path / "zeros.parquet"
    part = pa.table({"a": np.zeros(10**6, np.int64)})
    with pq.ParquetWriter(table, part.schema) as writer:
        for _ in range(150):
            writer.write_table(part)
    for content, message in (
        (table.read_bytes(), r"150000000 rows in \d+ bytes .*tables/a\.parquet"),
        (b"PAR1" + bytes(99) + b"PAR1", r"not a table: .*tables/a\.parquet"),
    ):
        archive.write_bytes(packed({"results/tables/a.parquet": content}))
        with pytest.raises(RecordError, match=message):
            unpacked(archive, tmp_path / "files")
        shutil.rmtree(tmp_path / "files")


NOT_REGULAR = "not a regular file in its folder"
MEMBERS = {
    "absolute": ([member(name="/tmp/x")], NOT_REGULAR),
    "folder above": ([member(name="top/../../x")], NOT_REGULAR),
    "no folder": ([member(name="x")], NOT_REGULAR),
    "another folder": ([member(name="other/x")], "not in its list of checksums"),
    "link": ([member(kind=tarfile.SYMTYPE, link="/etc")], NOT_REGULAR),
    "link and file behind it": (
        [member(kind=tarfile.SYMTYPE, link="../outside"), member(name="top/zeros/x")],
        NOT_REGULAR,
    ),
    "hard link": ([member(kind=tarfile.LNKTYPE, link="/etc/passwd")], NOT_REGULAR),
    "character device": ([member(kind=tarfile.CHRTYPE)], NOT_REGULAR),
    "block device": ([member(kind=tarfile.BLKTYPE)], NOT_REGULAR),
    "FIFO": ([member(kind=tarfile.FIFOTYPE)], NOT_REGULAR),
    "folder": ([member(kind=tarfile.DIRTYPE)], NOT_REGULAR),
    "file and file below it": ([member(), member(name="top/zeros/x")], "damaged at or after"),
    "twice": ([member(), member()], "is duplicate"),
    "escape sequence": ([member(name="top/\x1b[2Jx")], r"control characters .*\\x1b\[2Jx"),
    "line end": ([member(name="top/x\ny")], "does not begin with a list|control characters"),
    "long name": ([member(name="top/" + 300 * "x")], "damaged at or after"),
}


@pytest.mark.parametrize("kind", MEMBERS)
def test_nothing_is_written_elsewhere(tmp_path, kind):
    entries, message = MEMBERS[kind]
    for entry in entries:
        entry.mode = 0o7777
    (tmp_path / "outside").mkdir()
    archive = tmp_path / "some.tar.gz"
    archive.write_bytes(packed_members(*((entry, b"") for entry in entries)))
    with pytest.raises(RecordError, match=message) as error:
        unpacked(archive, tmp_path / "files")
    assert "\x1b" not in str(error.value)
    assert {path.name for path in tmp_path.iterdir()} <= {"some.tar.gz", "files", "outside"}
    assert not list((tmp_path / "outside").iterdir())
    for path in (tmp_path / "files").rglob("*"):
        assert path.is_dir() or (path.is_file() and not path.is_symlink())
        assert path.is_dir() or path.stat().st_mode & 0o7111 == 0


def test_no_space_is_not_a_damaged_archive(tmp_path):
    archive = tmp_path / "some.tar.gz"
    archive.write_bytes(packed(FILES))
    target = tmp_path / "files"
    target.mkdir()
    (target / "LICENSE").symlink_to("/dev/full")
    with pytest.raises(RecordError, match=r"no space to unpack .*TMPDIR"):
        unpacked(archive, target)
