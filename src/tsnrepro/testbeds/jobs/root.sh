#!/bin/sh
# First process of a job on this machine: makes a file system of its own, then runs the job in it.
#   MEGABYTES SECONDS INSIDE MOUNT...
# INSIDE is the script that goes on there. Its root is this machine's with all that is written kept
# in memory; what is mounted elsewhere (MOUNT...) can be read only.
set -e
size=$1 seconds=$2 inside=$3
shift 3

mount -t tmpfs -o mode=0755,size="${size}m" tmpfs /run
root=/run/root
mkdir /run/written /run/work $root
mount -t overlay -o lowerdir=/,upperdir=/run/written,workdir=/run/work overlay $root
for place; do
    # What root itself may not see (another user's FUSE) or what lies hidden is left out.
    if [ ! -e "$place" ] || [ ! -e "$root$place" ]; then continue; fi
    mount --bind "$place" "$root$place"
    mount -o remount,bind,ro "$root$place"
done
mount -t proc proc $root/proc
# It could restart the machine.
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
