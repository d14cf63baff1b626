#!/bin/sh
# A job on this machine, in its own file system: reads its files as a tar and writes its results as
# another. The script's own output goes to standard error.
export OUT=/run/tsnrepro/out
tar --extract --directory / || exit
cd / && mkdir -p "$OUT/steps" "$OUT/files" || exit
cat /proc/sys/kernel/osrelease >"$OUT/kernel"
date +%s%N >"$OUT/ready"

sh /run/tsnrepro/script </dev/null >&2

# Last in the tar: one without it is truncated.
: >"$OUT/complete"
tar --create --directory "$OUT" kernel ready steps files complete
