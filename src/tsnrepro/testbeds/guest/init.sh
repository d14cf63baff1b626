#!/bin/sh
# First process of a guest: runs the job and writes the results as a tar to the disk.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/tmp

mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/console 2>&1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=0755 tmpfs /run
# Not a mount point: it may have programs of the job. The root file system is in memory anyway.
mkdir -p /tmp

# Ends the guest at once: qemu exits on the reset.
leave() {
    echo b >/proc/sysrq-trigger
    sleep 60
}

modprobe virtio_pci && modprobe virtio_blk
if [ ! -b /dev/vda ]; then
    echo 'guest: no disk for the results'
    leave
fi
mkdir -p /out/steps /out/files
cat /proc/sys/kernel/osrelease >/out/kernel
date +%s%N >/out/ready
echo 'guest: ready'

sh /job/script

# Last in the tar: one without it is truncated.
: >/out/complete
tar --create --file /dev/vda --directory /out kernel ready steps files complete &&
    sync && echo 'guest: done'
leave
