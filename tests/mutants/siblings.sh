#!/bin/sh
# Breaks what tells a vCPU of a shared core something, in one place after the other, and says which tests went red: on the host, and on QEMU with the
# broken monitor.
#   siblings.sh [PLACE...]      all places, or those that are named
# Works in a copy of the checkout (target/mutants), which it leaves there; guests and tests are those of this checkout (./x build). A place that no
# test finds, on the host or on QEMU, makes it exit 1.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
copy=$here/target/mutants
monitor=$here/target/mutants-monitor
places="post clear"

# change FILE TEXT OTHER: the one place where FILE has the text gets the other one.
change() {
    perl -0pi -e 'BEGIN { $text = shift; $other = shift } $count = s/\Q$text\E/$other/g; END { exit($count != 1) }' "$2" "$3" "$copy/$1" || {
        echo "siblings.sh: $1 does not have the place to break exactly once: $2" >&2
        exit 2
    }
}

# Sets `hosts`, the tests of the monitor on the host, and `attack`, those on QEMU in which an attack must land; none where QEMU has nothing that
# would notice.
break_place() {
    case $1 in
        # A post calls the other core also when one waits there already.
        post)
            change monitor/src/sharing/posting.rs 'if posts::post(&words.posted, 1u32.wrapping_shl(intid)) {' 'if posts::post(&words.posted, 1u32.wrapping_shl(intid)) | true {'
            hosts=posting attack=shared_siblings
            ;;
        # A sibling clears what waits active for a vCPU that is away.
        clear)
            change monitor/src/interrupts/noted.rs 'if self.partition.shared_vcpus > 1' 'if self.partition.shared_vcpus > 255'
            hosts=posting attack=
            ;;
        *) echo "siblings.sh: there is no place $1; there are: $places" >&2; exit 2 ;;
    esac
}

# red LOG: the tests that failed.
red() {
    sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p; s/^error: could not compile.*/the build/p' "$1" | sort -u | paste -sd, | sed 's/,/, /g'
}

[ -d "$copy" ] || git worktree add -q --detach "$copy" HEAD
[ $# -gt 0 ] || {
    # shellcheck disable=SC2086 # a list of words
    set -- $places
}
mkdir -p "$monitor"
missed=0
for place; do
    git -C "$copy" checkout -q --force --detach "$(git rev-parse HEAD)"
    break_place "$place"
    log=$here/target/mutants-$place.log
    # What does not build is found as well.
    (cd "$copy" && cargo test --locked --no-fail-fast -p bulkhead-monitor --lib -- "$hosts") >"$log" 2>&1 || true
    found=$(red "$log")
    if [ -n "$found" ]; then echo "$place: red on the host: $found"; else echo "$place: NOT FOUND on the host"; missed=1; fi
    [ -n "$attack" ] || continue
    (cd "$copy" && cargo build --locked --profile bare --target aarch64-unknown-none-softfloat --package bulkhead-monitor) >>"$log" 2>&1
    cp "$copy/target/aarch64-unknown-none-softfloat/bare/bulkhead-monitor" "$monitor/shared.elf"
    BULKHEAD_GUESTS=$here/target/guests BULKHEAD_MONITOR=$monitor cargo test --locked -p bulkhead-system-tests --test scenarios -- "$attack" >"$log.qemu" 2>&1 || true
    found=$(red "$log.qemu")
    if [ -n "$found" ]; then echo "$place: red on QEMU: $found"; else echo "$place: NOT FOUND on QEMU"; missed=1; fi
done
exit $missed
