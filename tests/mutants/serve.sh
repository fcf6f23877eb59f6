#!/bin/sh
# Breaks the back end of virtio devices in one place after the other, and says which tests went red: on the host, and on QEMU, where a hostile front
# attacks the broken `bulkheadctl serve` in stock Debian.
#   serve.sh [PLACE...]      all places, or those that are named
# Works in a copy of the checkout (target/mutants), which it leaves there; other guests, the monitor and tests are those of this checkout (./x build). A
# place that no test finds, on the host or on QEMU, makes it exit 1.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
copy=$here/target/mutants
guests=$here/target/mutants-guests
linux_target=aarch64-unknown-linux-musl
files=$here/.cache/linux/files
places="pool next jump flood"

# change FILE TEXT OTHER: the one place where FILE has the text gets the other one.
change() {
    perl -0pi -e 'BEGIN { $text = shift; $other = shift } $count = s/\Q$text\E/$other/g; END { exit($count != 1) }' "$2" "$3" "$copy/$1" || {
        echo "serve.sh: $1 does not have the place to break exactly once: $2" >&2
        exit 2
    }
}

break_place() {
    case $1 in
        # A buffer may be outside the pool: requests for it are done, with what the window's own bound leaves of them.
        pool) change core/virtqueue/src/window.rs 'if end > u64::from(self.pool_bytes)' 'if end == u64::MAX' ;;
        # A chain continues behind its table.
        next) change core/virtqueue/src/chain.rs 'if next >= number' 'if next == u16::MAX' ;;
        # An index may be anywhere: what was never offered is done.
        jump) change core/virtqueue/src/queue.rs 'if available.wrapping_sub(self.done) > ring.number' 'if available == 0 && self.done == 1' ;;
        # A front fills the console and the disk of who serves it with reports.
        flood) change linux/bulkheadctl/src/serve.rs 'self.left.checked_sub(1)' 'Some(self.left)' ;;
        *) echo "serve.sh: there is no place $1; there are: $places" >&2; exit 2 ;;
    esac
}

# red LOG: the tests that failed.
red() {
    sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p; s/^error: could not compile.*/the build/p' "$1" | sort -u | paste -sd, | sed 's/,/, /g'
}

# The archive of stock Linux with the broken program, beside the guests of this checkout.
build_guests() {
    mkdir -p "$guests/linux"
    for guest in "$here"/target/guests/*.elf "$here"/target/guests/linux/Image; do ln -sf "$guest" "$guests${guest#"$here"/target/guests}"; done
    (
        cd "$copy"
        cargo build --locked --profile bare --target $linux_target --package bulkheadctl
        set -- "bin/busybox=$files/busybox" "bin/bulkheadctl=target/$linux_target/bare/bulkheadctl"
        for module in "$files"/*.ko; do set -- "$@" "lib/modules/$(basename "$module")=$module"; done
        cargo run --locked --quiet --package bulkhead-initramfs -- archive "$guests/linux/initramfs-devices.cpio.gz" "$@" \
            "init=linux/initramfs/init-devices" "init-modes=linux/initramfs/init"
    )
}

[ -d "$copy" ] || git worktree add -q --detach "$copy" HEAD
[ $# -gt 0 ] || {
    # shellcheck disable=SC2086 # a list of words
    set -- $places
}
missed=0
for place; do
    git -C "$copy" checkout -q --force --detach "$(git rev-parse HEAD)"
    break_place "$place"
    log=$here/target/mutants-$place.log
    # What does not build is found as well.
    (cd "$copy" && cargo test --locked --no-fail-fast -p bulkhead-virtqueue -p bulkheadctl --tests) >"$log" 2>&1 || true
    found=$(red "$log")
    if [ -n "$found" ]; then echo "$place: red on the host: $found"; else echo "$place: NOT FOUND on the host"; missed=1; fi
    build_guests >>"$log" 2>&1
    BULKHEAD_GUESTS=$guests BULKHEAD_MONITOR=$here/target/monitor cargo test --locked -p bulkhead-system-tests --test scenarios -- virtio_hostile::a_hostile >"$log.qemu" 2>&1 || true
    found=$(red "$log.qemu")
    if [ -n "$found" ]; then echo "$place: red on QEMU: $found: $(sed -n 's/^ *left: //p' "$log.qemu" | head -1)"; else echo "$place: NOT FOUND on QEMU"; missed=1; fi
done
exit $missed
