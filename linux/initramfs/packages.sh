#!/bin/sh
# Fetches what the Linux guest is made of from the user's own Debian sources: kernel, modules and busybox for arm64; or the
# device trees of boards that come with a kernel.
#
#   packages.sh DIRECTORY [KERNEL [MODULE...]]
#   packages.sh --trees DIRECTORY [KERNEL]
#
# KERNEL is the package that Debian names without a version, linux-image-cloud-arm64 if nothing is said, and MODULE one of its
# modules; those of channels and of virtio if none is named. What a module needs is not looked up: name it before the module.
# With --trees KERNEL is linux-image-arm64 if nothing is said, and DIRECTORY/trees gets a folder for each vendor.
# DIRECTORY/files (or trees) is complete when it exists: it is made under another name and renamed as the last step. One that lacks a
# module that is asked for is of an earlier version, and is made once more. apt gets a
# private state below DIRECTORY, so neither the package lists nor the architectures of the machine change, and no root is
# needed. Signatures are checked as always: the sources bring their own keys.
set -eu

fail() {
    printf 'x: %s\n' "$*" >&2
    exit 1
}

product=files
if [ "${1:-}" = --trees ]; then
    product=trees
    shift
fi
[ $# -ge 1 ] || fail "usage: packages.sh [--trees] DIRECTORY [KERNEL [MODULE...]]"
if [ $product = trees ]; then
    newest=${2:-linux-image-arm64}
    further=
else
    newest=${2:-linux-image-cloud-arm64}
    further=busybox-static
fi
packages="$newest${further:+ $further}"
wanted=$1
case $# in
    1 | 2) set -- uio uio_pci_generic virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_mmio virtio_blk \
        failover net_failover virtio_net virtio-rng tun ;;
    *) shift 2 ;;
esac
complete=no
if [ -d "$wanted/$product" ]; then
    complete=yes
    [ $product = trees ] || [ -e "$wanted/files/sums" ] || complete=no
    [ $product = trees ] || for module; do
        [ -e "$wanted/files/$module.ko" ] || complete=no
    done
fi
[ $complete = no ] || exit 0
for program in apt-get apt-cache apt-config dpkg-deb; do
    command -v $program >/dev/null 2>&1 || fail "kernel and device trees come from Debian packages, and this machine has no $program; use Debian 12."
done
mkdir -p "$wanted"
directory=$(cd "$wanted" && pwd)
apt=$directory/apt
work=$directory/work
rm -rf "$apt" "$work"
trap 'rm -rf "$apt" "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$work/packages" "$work/files"
: >"$apt/status"

# The user's configuration (proxies, mirrors, pinning, keys) without what ties it to this machine: hooks, which would run
# programs as part of an update; extra indexes, which are not needed; state, cache and architecture, which are ours.
{
    apt-config dump |
        grep -vE 'Invoke|^Acquire::IndexTargets|^Dir::(State|Cache)|^Dir::Etc::(parts|main) |^APT::Architectures?[: ]'
    cat <<EOF
Dir::Etc::parts "/dev/null";
Dir::Etc::main "/dev/null";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
Acquire::Retries "3";
EOF
} >"$apt/apt.conf"
export APT_CONFIG="$apt/apt.conf"

# A third-party source may be down or have nothing for arm64. That is no failure as long as the packages are found.
apt-get -q update >"$apt/update.log" 2>&1 || true

# The newest kernel is a dependency of the empty package that Debian names without a version.
kernel=$(apt-cache depends --important "$newest" 2>/dev/null | sed -n 's/^ *Depends: *\(linux-image-[^ ]*\)$/\1/p' | head -n 1)
if [ -z "$kernel" ] || { [ -n "$further" ] && [ -z "$(apt-cache madison $further 2>/dev/null)" ]; }; then
    grep -E '^[EW]:' "$apt/update.log" >&2 || true
    ! grep -q 'No space left' "$apt/update.log" || fail "the disk of $directory is full: make room, then run the same command again."
    fail "the apt sources of this machine do not offer $packages for arm64: check the network, and that the entry of Debian itself in /etc/apt is not limited to another architecture."
fi
# shellcheck disable=SC2086 # none or one word
(cd "$work/packages" && apt-get -q download "$kernel" $further >"$apt/download.log" 2>&1) || {
    cat "$apt/download.log" >&2
    fail "cannot download $kernel${further:+ and $further} for arm64: see the messages of apt-get above, then run the same command again."
}

# shellcheck disable=SC2016 # dpkg-deb fills in these names, not the shell
for package in "$work"/packages/*.deb; do
    dpkg-deb -W --showformat='${Package} ${Version}\n' "$package" >>"$work/files/versions"
    # A kernel's modules are ten times its device trees.
    if [ $product = trees ]; then
        mkdir -p "$work/root"
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work/root" --wildcards './usr/lib/linux-image-*'
    else
        dpkg-deb -x "$package" "$work/root"
        dpkg-deb --ctrl-tarfile "$package" | tar -x -O ./md5sums >>"$work/sums"
    fi
done
if [ $product = trees ]; then
    mv "$work/root/usr/lib/$kernel"/* "$work/files/"
    mv "$work/files" "$directory/trees"
    exit 0
fi
# keep FILE NAME copies a file that is what the sums of its package say, and notes the sum of the copy, for who asks later whether a
# guest is made of anything else.
keep() {
    (cd "$work/root" && grep -F "  ${1#"$work/root/"}" "$work/sums" | md5sum --status -c -) ||
        fail "${1#"$work/root/"} is not what the sums of its package say: remove .cache and run the same command again."
    case $1 in
        *.xz) xz -dc "$1" >"$work/files/$2" ;;
        *) cp "$1" "$work/files/$2" ;;
    esac
    (cd "$work/files" && md5sum "$2" >>sums)
}

release=${kernel#linux-image-}
keep "$work/root/boot/vmlinuz-$release" vmlinuz
keep "$work/root/bin/busybox" busybox
for module; do
    # Merged /usr moves the modules in later releases of Debian.
    found=$(find "$work/root" -path "*/lib/modules/$release/*/$module.ko*" | head -n 1)
    case $found in
        *.ko | *.ko.xz) keep "$found" "$module.ko" ;;
        *) fail "$kernel has no module $module in a form that is known." ;;
    esac
done
rm -rf "$directory/files"
mv "$work/files" "$directory/files"
