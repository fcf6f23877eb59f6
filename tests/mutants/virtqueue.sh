#!/bin/sh
# Breaks the back end of virtio and the front's registers in one place after the other, and says which host tests went red.
#   virtqueue.sh [PLACE...]      all places, or those that are named
# Works in a copy of the checkout (target/mutants), which it leaves there. A place that no test finds makes it exit 1.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
copy=$here/target/mutants
places="pool head next order flags jump announce confirm_read confirm_fault takeover withdraw continue disk read_only failed_disk room
offloads frame look_again alignment odd piece mute record_odd record_ends width queue"

# change FILE TEXT OTHER: the one place where FILE has the text gets the other one.
change() {
    perl -0pi -e 'BEGIN { $text = shift; $other = shift } $count = s/\Q$text\E/$other/g; END { exit($count != 1) }' "$2" "$3" "$copy/core/$1" || {
        echo "virtqueue.sh: $1 does not have the place to break exactly once: $2" >&2
        exit 2
    }
}

break_place() {
    case $1 in
        # Bounds of pool, table and ring.
        pool) change virtqueue/src/window.rs 'if end > u64::from(self.pool_bytes)' 'if end == u64::MAX' ;;
        head) change virtqueue/src/chain.rs 'if head >= number' 'if head == u16::MAX' ;;
        next) change virtqueue/src/chain.rs 'if next >= number' 'if next == u16::MAX' ;;
        jump) change virtqueue/src/queue.rs 'if available.wrapping_sub(self.done) > ring.number' 'if available == 0 && self.done == 1' ;;
        alignment) change virtqueue/src/queue.rs '.filter(|_| address.is_multiple_of(alignment))' '.filter(|_| alignment != 0)' ;;
        # What the specification forbids in a chain.
        order) change virtqueue/src/chain.rs 'return Err(Fault::Order);' '()' ;;
        flags) change virtqueue/src/chain.rs 'if flags & !(FLAG_NEXT | FLAG_WRITE) != 0' 'if flags == u16::MAX' ;;
        # A restart of the front: stores, loads, faults, announcements that are left.
        announce) change virtqueue/src/window.rs 'if is_current {' 'if is_current || queue < 9 {' ;;
        confirm_read) change virtqueue/src/queue.rs 'if window.is_current(self.index, self.incarnation) { Ok' 'if window.is_current(self.index, self.incarnation) || self.index < 9 { Ok' ;;
        confirm_fault) change virtqueue/src/queue.rs 'if !window.is_current(self.index, self.incarnation)' 'if !window.is_current(self.index, self.incarnation) && self.index > 9' ;;
        withdraw) change virtqueue/src/queue.rs 'window.withdraw();' '' ;;
        odd) change virtqueue/src/window.rs 'incarnation.sequence & 1 == 0 && self.is_current(queue, incarnation)' 'true' ;;
        # A restart of the back end.
        takeover) change virtqueue/src/queue.rs 'self.interrupt_is_due = self.done != 0;' '' ;;
        continue) change virtqueue/src/queue.rs 'self.done = window.memory().load_half(ring.used.wrapping_add(RING_INDEX));' '' ;;
        # Requests and frames.
        disk) change virtqueue/src/block.rs 'end <= sectors' 'end <= sectors + 1' ;;
        read_only) change virtqueue/src/block.rs 'TYPE_WRITE if self.is_read_only =>' 'TYPE_WRITE if self.is_read_only && sector == 1 =>' ;;
        failed_disk) change virtqueue/src/block.rs 'if done.is_err()' 'if done.is_err() && length == 0' ;;
        piece) change virtqueue/src/block.rs 'left.min(COPY_BYTES as u64)' 'left.min(COPY_BYTES as u64 * 2)' ;;
        room) change virtqueue/src/net.rs 'if room < ROOM_BYTES as u64' 'if room < 12' ;;
        offloads) change virtqueue/src/net.rs 'if passes && matches!(header, [0, 0, ..])' 'if passes && matches!(header, [..])' ;;
        frame) change virtqueue/src/net.rs '(HEAD_BYTES..=FRAME_BYTES as u64)' '(HEAD_BYTES..=FRAME_BYTES as u64 + 1)' ;;
        # Who is told of what.
        look_again) change virtqueue/src/queue.rs 'Ok(!self.has_next(window, ring)?)' 'Ok(ring.number != 0)' ;;
        mute) change virtqueue/src/queue.rs '& FLAG_SILENT == 0' '& FLAG_SILENT != 2' ;;
        # The front's registers.
        record_odd) change emulation/src/virtio.rs 'next() | 1' 'next() & !1' ;;
        record_ends) change emulation/src/virtio.rs 'queue.number.load(Relaxed) & kept' 'queue.number.load(Relaxed)' ;;
        width) change emulation/src/virtio.rs 'bytes: u8) -> u32 {
        if bytes != 4' 'bytes: u8) -> u32 {
        if bytes > 8' ;;
        queue) change emulation/src/virtio.rs '(index < self.plan.queues())' '(index < 9)' ;;
        *) echo "virtqueue.sh: there is no place $1; there are: $places" >&2; exit 2 ;;
    esac
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
    (cd "$copy" && cargo test --locked --no-fail-fast -p bulkhead-virtqueue -p bulkhead-emulation --tests) >"$log" 2>&1 || true
    red=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p; s/^error: could not compile.*/the build/p' "$log" | sort -u | paste -sd, | sed 's/,/, /g')
    if [ -n "$red" ]; then echo "$place: red: $red"; else echo "$place: NOT FOUND"; missed=1; fi
done
exit $missed
