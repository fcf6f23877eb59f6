#!/bin/sh
# Makes the disks of this system anew, in `disks` beside it: that of linux (programs and pages), the one that it lends to office (its root file
# system), and that of the intruder's controller. `./x demo devices` runs this first, as every run changes them.
set -eu
cd "$(dirname "$0")"
busybox=../../.cache/linux/files/busybox
[ -e $busybox ] || { echo "disks.sh: there is no busybox for office in .cache/linux/files: run ./x build first" >&2; exit 1; }
rm -rf disks
mkdir -p disks/root/bin disks/root/dev disks/root/proc disks/root/sys disks/root/tmp
cp -R office/. disks/root
cp $busybox disks/root/bin/busybox
# What office compares all the time: 4 MiB that no mistake of a page or a sector leaves as they are.
awk 'BEGIN { for (line = 0; line < 262144; line++) printf "%015d\n", (line * 7919) % 999999937 }' >disks/root/data
(cd disks/root && sha256sum data >data.sum)
../../x disk linux disks/linux.img 16M
../../x disk disks/root disks/office.img 64M
../../x disk linux disks/intruder.img 4M
rm -r disks/root
