#!/bin/sh
# Breaks the back end of virtio devices, or what EL2 does for its front, in one place after the other, and says which tests went red: on the host, and on QEMU
# with the broken `bulkheadctl` in stock Debian, or with the broken monitor. What breaks the protocol is in virtqueue.sh.
#   serve.sh [PLACE...]      all places, or those that are named; ON=host or ON=qemu looks there alone
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"
linux_target=aarch64-unknown-linux-musl
places="pool next jump flood report written again frames kept clear record once limit others"

# Sets `attack`, the tests on QEMU that must notice, and `is_host`, whether tests on the host must. `broken` is what is built of it: bulkheadctl or the monitor.
break_place() {
    attack=virtio_hostile::a_hostile_front_stops is_host=yes broken=bulkheadctl
    case $1 in
        # A buffer may be outside the pool: requests for it are done, with what the window's own bound leaves of them.
        pool) change core/virtqueue/src/window.rs 'if end > u64::from(self.pool_bytes)' 'if end == u64::MAX' ;;
        # A chain continues behind its table.
        next) change core/virtqueue/src/chain.rs 'if next >= number' 'if next == u16::MAX' ;;
        # An index may be anywhere: what was never offered is done.
        jump) change core/virtqueue/src/queue.rs 'if available.wrapping_sub(self.done) > ring.number' 'if available == 0 && self.done == 1' ;;
        # A front fills the console and the disk of who serves it with reports.
        flood) change linux/bulkheadctl/src/serve.rs 'self.left.checked_sub(1)' 'Some(self.left)' ;;
        # A report that cannot be written ends the program.
        report)
            change linux/bulkheadctl/src/serve.rs 'let _ = writeln!(self.output, "{text}{more}").and_then(|()| self.output.flush());' 'writeln!(self.output, "{text}{more}").and_then(|()| self.output.flush()).expect("it is written");'
            attack=
            ;;
        # Each second page is acknowledged and not written.
        written)
            change linux/bulkheadctl/src/disk.rs 'self.file.write_all_at(from, at);' 'if at & 4096 == 0 { self.file.write_all_at(from, at) } else { Ok(()) };'
            attack=virtio_pair::linux_has_its_disk
            ;;
        # A process does not continue where the one before it was.
        again)
            change core/virtqueue/src/queue.rs 'self.done = window.memory().load_half(ring.used.wrapping_add(RING_INDEX));' ''
            attack='virtio_pair::a_killed_back_end virtio_pair::a_restarted_back_partition'
            ;;
        # The front's frames are as long as a ping's at most.
        frames)
            change core/virtqueue/src/net.rs '            network.send(frame);' '            network.send(frame.get(..100).unwrap_or(frame));'
            attack=virtio_pair::linux_has_its_network
            ;;
        # A pool that other things are put into is not told.
        kept)
            change linux/bulkheadctl/src/pool.rs 'self.free <= self.protection' 'self.free <= self.protection || self.free < 118'
            attack=virtio_pair::linux_has_its_disk
            is_host=
            ;;
        # EL2 does not clear the pool for the next instance of a front.
        clear)
            change monitor/src/devices/fronts.rs 'self.machine.scrub(at(plan.pool, offset), bytes);' ''
            attack=virtio_pair::a_restarted_front
            broken=monitor
            ;;
        # A queue that goes off keeps its record. What the back end still does there is in the pool of a front that has no driver, where nobody looks.
        record)
            change core/emulation/src/virtio.rs 'queue.number.load(Relaxed) & kept' 'queue.number.load(Relaxed)'
            change core/emulation/src/virtio.rs 'self.page.load(register.wrapping_add(half)) & kept' 'self.page.load(register.wrapping_add(half))'
            attack=
            broken=monitor
            ;;
        # A queue that goes on again is taken for the one that was there.
        once)
            change core/virtqueue/src/queue.rs 'if now == self.incarnation && now != Incarnation::NONE' 'if now.generation == self.incarnation.generation && now != Incarnation::NONE'
            attack=virtio_pair::unbinds
            ;;
        # No notification is refused.
        limit)
            change monitor/src/exits/call.rs 'let passed = doorbell.period_ticks == 0 ||' 'let passed = doorbell.period_ticks != 9 ||'
            attack=virtio_hostile::storms
            broken=monitor
            ;;
        # A notification is another core's as well, of which it is no business.
        others)
            change monitor/src/exits/call.rs '            self.pend_spare(doorbell.intid, true);' '            self.pend_spare(doorbell.intid, true);
            self.send_physical_sgi(2, crate::interrupts::MONITOR_SGI);'
            attack=virtio_hostile::a_lying
            is_host=
            broken=monitor
            ;;
        *) no_place "$1" ;;
    esac
}

# The archive of stock Linux with the broken program, beside the guests of this checkout.
use_bulkheadctl() {
    link_guests
    files=$here/.cache/linux/files archive=$guests/linux/initramfs-devices.cpio.gz
    rm -f "$archive"
    (
        cd "$copy"
        cargo build --locked --profile bare --target $linux_target --package bulkheadctl
        set -- "bin/busybox=$files/busybox" "bin/bulkheadctl=target/$linux_target/bare/bulkheadctl"
        for module in "$files"/*.ko; do set -- "$@" "lib/modules/$(basename "$module")=$module"; done
        cargo run --locked --quiet --package bulkhead-initramfs -- archive "$archive" "$@" "init=linux/initramfs/init-devices" "init-modes=linux/initramfs/init"
    ) >>"$log" 2>&1
}

try_place() {
    if [ -n "$is_host" ] && is_asked host; then
        if [ $broken = monitor ]; then
            on_host -p bulkhead-emulation --tests
            on_host -p bulkhead-monitor --features devices --lib -- fronts calls
        else
            on_host -p bulkhead-virtqueue -p bulkheadctl --tests
        fi
        tell "$1" "the host" "$log"
    fi
    if [ -z "$attack" ] || ! is_asked qemu; then return; fi
    if [ $broken = monitor ]; then use_monitor devices; else use_bulkheadctl; fi
    # shellcheck disable=SC2086 # a list of words
    on_qemu $attack
    tell "$1" QEMU "$log.qemu"
}

try_places "$@"
