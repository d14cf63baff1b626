#!/bin/sh
# First process of a job on this machine: sets up a file system of its own and runs the job in it.
#   MEGABYTES SECONDS INSIDE MOUNT...
# INSIDE is the script to run there. Its root is an overlay of this machine's, with changes in memory;
# other file systems (MOUNT...) are read-only.
set -e
size=$1 seconds=$2 inside=$3
shift 3

mount -t tmpfs -o mode=0755,size="${size}m" tmpfs /run
root=/run/root
mkdir /run/written /run/work $root
mount -t overlay -o lowerdir=/,upperdir=/run/written,workdir=/run/work overlay $root
for place; do
    # Skip what root cannot access (another user's FUSE) or what is hidden.
    if [ ! -e "$place" ] || [ ! -e "$root$place" ]; then continue; fi
    mount --bind "$place" "$root$place"
    mount -o remount,bind,ro "$root$place"
done
mount -t proc proc $root/proc
# It could reboot the machine.
if [ -e $root/proc/sysrq-trigger ]; then mount --bind /dev/null $root/proc/sysrq-trigger; fi
mount -t sysfs -o ro sysfs $root/sys
mount --rbind /dev $root/dev
mount -o remount,bind,ro $root/dev
mkdir -p $root/tmp $root/run
for place in /dev/shm /tmp; do
    if [ -d $root$place ]; then mount -t tmpfs -o mode=1777,size="${size}m" tmpfs $root$place; fi
done
mount -t tmpfs -o mode=0755,size="${size}m" tmpfs $root/run

exec chroot $root timeout --signal=KILL "$seconds" sh -c "$inside"
