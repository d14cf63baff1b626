#!/bin/sh
# A job on this machine, in its own file system: takes its files as a tar, hands its results out as
# another. What the script itself says is for standard error.
export OUT=/run/tsnrepro/out
tar --extract --directory / || exit
cd / && mkdir -p "$OUT/steps" "$OUT/files" || exit
cat /proc/sys/kernel/osrelease >"$OUT/kernel"
date +%s%N >"$OUT/ready"

sh /run/tsnrepro/script </dev/null >&2

# Last in the tar, so that a tar without it is known to be cut off.
: >"$OUT/complete"
tar --create --directory "$OUT" kernel ready steps files complete
