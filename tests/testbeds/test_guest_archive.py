"""The guest's archives against a reader written from the kernel's description of the format."""

import shutil
import stat
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsnrepro.testbeds.guest.archive import Archive

HEADER_BYTES = 110
PATHS = st.lists(
    st.text("abcXYZ019._-", min_size=1, max_size=9).filter(lambda part: part.strip(".")),
    min_size=1,
    max_size=4,
).map(lambda parts: "/" + "/".join(parts))


def read(data: bytes) -> list[tuple[str, int, bytes]]:
    """Return name, mode and content of each entry of one or more archives in a row."""
    entries, at = [], 0
    while at < len(data):
        if data[at] == 0:  # between two archives
            at += 1
            continue
        assert data[at : at + 6] == b"070701"
        assert at % 4 == 0
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name_end = at + HEADER_BYTES + name_size
        name = data[at + HEADER_BYTES : name_end - 1].decode()
        assert data[name_end - 1] == 0
        start = name_end + -name_end % 4
        content = data[start : start + size]
        at = start + size + -(start + size) % 4
        if name != "TRAILER!!!":
            entries.append((name, mode, content))
    return entries


@given(st.dictionaries(PATHS, st.binary(max_size=50), max_size=8))
@settings(max_examples=60, deadline=None)
def test_what_goes_in_comes_out(files):
    paths = set(files)
    above = {path.rsplit("/", n)[0] for path in paths for n in range(1, path.count("/"))}
    files = {path: content for path, content in files.items() if path not in above}
    archive = Archive()
    for path, content in files.items():
        archive.file(path, content, 0o640)
    data = archive.to_bytes()
    assert len(data) % 512 == 0
    entries = read(data)
    regular = {f"/{name}": content for name, mode, content in entries if stat.S_ISREG(mode)}
    assert regular == files
    assert all(mode == stat.S_IFREG | 0o640 for _, mode, _ in entries if stat.S_ISREG(mode))


def test_folders_come_before_what_is_in_them():
    archive = Archive()
    archive.file("/usr/lib/deep/library", b"x")
    archive.link("/lib", "usr/lib")
    names = [name for name, _, _ in read(archive.to_bytes())]
    assert names == ["lib", "usr", "usr/lib", "usr/lib/deep", "usr/lib/deep/library"]
    assert read(archive.to_bytes())[0] == ("lib", stat.S_IFLNK | 0o777, b"usr/lib")


def test_same_content_in_another_order_gives_the_same_bytes():
    one, other = Archive(), Archive()
    one.file("/a", b"1")
    one.file("/b/c", b"2")
    other.file("/b/c", b"2")
    other.file("/a", b"1")
    assert one.to_bytes() == other.to_bytes()


def test_a_later_archive_adds_to_an_earlier_one():
    one, other = Archive(), Archive()
    one.file("/a", b"1")
    other.file("/b", b"2")
    names = [name for name, _, _ in read(one.to_bytes() + other.to_bytes())]
    assert names == ["a", "b"]


@pytest.mark.skipif(not shutil.which("cpio"), reason="the program cpio is not installed")
def test_gnu_cpio_unpacks_it(tmp_path):
    archive = Archive()
    archive.file("/bin/tool", b"#!/bin/sh\n", 0o755)
    archive.file("/etc/odd", b"12345", 0o644)
    subprocess.run(
        ["cpio", "--extract", "--quiet"], input=archive.to_bytes(), cwd=tmp_path, check=True
    )
    assert (tmp_path / "etc/odd").read_bytes() == b"12345"
    assert (tmp_path / "bin/tool").stat().st_mode & 0o777 == 0o755
