#!/bin/sh
# Breaks the back end of virtio and the front's registers in one place after the other, and says which tests went red: on the host, and for the bounds of
# the pool and the registers also on QEMU, where a hostile front attacks a broken back end without an operating system, or a broken monitor. What breaks `bulkheadctl serve` is in serve.sh.
#   virtqueue.sh [PLACE...]      all places, or those that are named; ON=host or ON=qemu looks there alone
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"
places="pool bounds head next order flags jump announce confirm_read confirm_fault takeover withdraw continue disk read_only failed_disk room
offloads frame look_again alignment odd piece mute record_odd record_ends width queue"

# Sets `attack`, the test on QEMU in which an attack must land, none where nothing would notice; `part` if the monitor is attacked, and not the back end.
break_place() {
    attack='' part=''
    case $1 in
        # Bounds of pool, table and ring.
        bounds)
            # That of the window as well, which is below that of the pool: what is added to the window's address is stored to.
            change core/virtqueue/src/window.rs 'if end > u64::from(self.pool_bytes)' 'if end == u64::MAX'
            change core/channel/src/memory.rs 'match (whole, self.words.get(at / size_of::<u64>()))' 'match (whole, Some(unsafe { &*self.words.as_ptr().add(at / size_of::<u64>()) }))'
            attack=virtio_hostile::a_hostile_front_does
            ;;
        pool)
            attack=virtio_hostile::a_hostile_front_does
            change core/virtqueue/src/window.rs 'if end > u64::from(self.pool_bytes)' 'if end == u64::MAX' ;;
        head) change core/virtqueue/src/chain.rs 'if head >= number' 'if head == u16::MAX' ;;
        next) change core/virtqueue/src/chain.rs 'if next >= number' 'if next == u16::MAX' ;;
        jump) change core/virtqueue/src/queue.rs 'if available.wrapping_sub(self.done) > ring.number' 'if available == 0 && self.done == 1' ;;
        alignment) change core/virtqueue/src/queue.rs '.filter(|_| address.is_multiple_of(alignment))' '.filter(|_| alignment != 0)' ;;
        # What the specification forbids in a chain.
        order) change core/virtqueue/src/chain.rs 'return Err(Fault::Order);' '()' ;;
        flags) change core/virtqueue/src/chain.rs 'if flags & !(FLAG_NEXT | FLAG_WRITE) != 0' 'if flags == u16::MAX' ;;
        # A restart of the front: stores, loads, faults, announcements that are left.
        announce) change core/virtqueue/src/window.rs 'if is_current {' 'if is_current || queue < 9 {' ;;
        confirm_read) change core/virtqueue/src/queue.rs 'if window.is_current(self.index, self.incarnation) { Ok' 'if window.is_current(self.index, self.incarnation) || self.index < 9 { Ok' ;;
        confirm_fault) change core/virtqueue/src/queue.rs 'if !window.is_current(self.index, self.incarnation)' 'if !window.is_current(self.index, self.incarnation) && self.index > 9' ;;
        withdraw) change core/virtqueue/src/queue.rs 'window.withdraw();' '' ;;
        odd) change core/virtqueue/src/window.rs 'incarnation.sequence & 1 == 0 && self.is_current(queue, incarnation)' 'true' ;;
        # A restart of the back end.
        takeover) change core/virtqueue/src/queue.rs 'self.interrupt_is_due = self.done != 0;' '' ;;
        continue) change core/virtqueue/src/queue.rs 'self.done = window.memory().load_half(ring.used.wrapping_add(RING_INDEX));' '' ;;
        # Requests and frames.
        disk) change core/virtqueue/src/block.rs 'end <= sectors' 'end <= sectors + 1' ;;
        read_only) change core/virtqueue/src/block.rs 'TYPE_WRITE if self.is_read_only =>' 'TYPE_WRITE if self.is_read_only && sector == 1 =>' ;;
        failed_disk) change core/virtqueue/src/block.rs 'if done.is_err()' 'if done.is_err() && length == 0' ;;
        piece) change core/virtqueue/src/block.rs 'left.min(COPY_BYTES as u64)' 'left.min(COPY_BYTES as u64 * 2)' ;;
        room) change core/virtqueue/src/net.rs 'if room < ROOM_BYTES as u64' 'if room < 12' ;;
        offloads) change core/virtqueue/src/net.rs 'if passes && matches!(header, [0, 0, ..])' 'if passes && matches!(header, [..])' ;;
        frame) change core/virtqueue/src/net.rs '(HEAD_BYTES..=FRAME_BYTES as u64)' '(HEAD_BYTES..=FRAME_BYTES as u64 + 1)' ;;
        # Who is told of what.
        look_again) change core/virtqueue/src/queue.rs 'Ok(!self.has_next(window, ring)?)' 'Ok(ring.number != 0)' ;;
        mute) change core/virtqueue/src/queue.rs '& FLAG_SILENT == 0' '& FLAG_SILENT != 2' ;;
        # The front's registers.
        record_odd) change core/emulation/src/virtio.rs 'next() | 1' 'next() & !1' ;;
        record_ends) change core/emulation/src/virtio.rs 'queue.number.load(Relaxed) & kept' 'queue.number.load(Relaxed)' ;;
        width)
            attack=virtio_frame:: part=devices
            change core/emulation/src/virtio.rs 'bytes: u8) -> u32 {
        if bytes != 4' 'bytes: u8) -> u32 {
        if bytes > 8'
            ;;
        queue) change core/emulation/src/virtio.rs '(index < self.plan.queues())' '(index < 9)' ;;
        *) no_place "$1" ;;
    esac
}

try_place() {
    if is_asked host; then
        on_host -p bulkhead-virtqueue -p bulkhead-emulation --tests
        tell "$1" "the host" "$log"
    fi
    if [ -z "$attack" ] || ! is_asked qemu; then return; fi
    if [ -n "$part" ]; then use_monitor "$part"; else use_guest ramdisk; fi
    on_qemu "$attack"
    tell "$1" QEMU "$log.qemu"
}

try_places "$@"
