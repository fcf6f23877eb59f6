#!/bin/sh
# Breaks the back end of virtio devices, or what EL2 does for its front, in one place after the other, and says which tests went red: on the host, and on QEMU
# with the broken `bulkheadctl` in stock Debian, or with the broken monitor.
#   serve.sh [PLACE...]      all places, or those that are named; ON=host or ON=qemu looks there alone
# Works in a copy of the checkout (target/mutants), which it leaves there; other guests, the monitor and tests are those of this checkout (./x build). A
# place that no test finds, on the host or on QEMU, makes it exit 1.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
copy=$here/target/mutants
guests=$here/target/mutants-guests
monitor=$here/target/mutants-monitor
bare_target=aarch64-unknown-none-softfloat
linux_target=aarch64-unknown-linux-musl
files=$here/.cache/linux/files
places="pool next jump flood report written again frames kept clear record width limit others"

# change FILE TEXT OTHER: the one place where FILE has the text gets the other one.
change() {
    perl -0pi -e 'BEGIN { $text = shift; $other = shift } $count = s/\Q$text\E/$other/g; END { exit($count != 1) }' "$2" "$3" "$copy/$1" || {
        echo "serve.sh: $1 does not have the place to break exactly once: $2" >&2
        exit 2
    }
}

# Sets `attack`, the tests on QEMU that must notice, and `is_host`, whether tests on the host must. `broken` is what is built of it: bulkheadctl or the monitor.
break_place() {
    attack=virtio_hostile::a_hostile is_host=yes broken=bulkheadctl
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
            attack=virtio_pair::a_killed_back_end
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
        # A queue that goes off keeps its record.
        record)
            change core/emulation/src/virtio.rs 'queue.number.load(Relaxed) & kept' 'queue.number.load(Relaxed)'
            change core/emulation/src/virtio.rs 'self.page.load(register.wrapping_add(half)) & kept' 'self.page.load(register.wrapping_add(half))'
            attack=virtio_pair::unbinds
            broken=monitor
            ;;
        # Registers answer accesses of every width.
        width)
            change core/emulation/src/virtio.rs 'bytes: u8) -> u32 {
        if bytes != 4' 'bytes: u8) -> u32 {
        if bytes > 8'
            attack=virtio_frame
            broken=monitor
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
        *) echo "serve.sh: there is no place $1; there are: $places" >&2; exit 2 ;;
    esac
}

# red LOG: the tests that failed.
red() {
    sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p; s/^error: could not compile.*/the build/p' "$1" | sort -u | paste -sd, | sed 's/,/, /g'
}

# The archive of stock Linux with the broken program, beside the guests of this checkout.
build_bulkheadctl() {
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

# The broken monitor beside the other parts of this checkout.
build_monitor() {
    mkdir -p "$monitor"
    for part in "$here"/target/monitor/*.elf; do ln -sf "$part" "$monitor${part#"$here"/target/monitor}"; done
    rm -f "$monitor/devices.elf"
    (cd "$copy" && cargo build --locked --profile bare --target $bare_target --package bulkhead-monitor --no-default-features --features devices)
    cp "$copy/target/$bare_target/bare/bulkhead-monitor" "$monitor/devices.elf"
}

# Where tests of the broken part are.
test_host() {
    if [ $broken = monitor ]; then
        (cd "$copy" && { cargo test --locked --no-fail-fast -p bulkhead-emulation --tests; cargo test --locked --no-fail-fast -p bulkhead-monitor --features devices --lib -- fronts calls; })
    else
        (cd "$copy" && cargo test --locked --no-fail-fast -p bulkhead-virtqueue -p bulkheadctl --tests)
    fi
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
    : >"$log"
    if [ -n "$is_host" ] && [ "${ON:-host}" = host ]; then
        # What does not build is found as well.
        test_host >"$log" 2>&1 || true
        found=$(red "$log")
        if [ -n "$found" ]; then echo "$place: red on the host: $found"; else echo "$place: NOT FOUND on the host"; missed=1; fi
    fi
    if [ -z "$attack" ] || [ "${ON:-qemu}" != qemu ]; then continue; fi
    used_guests=$here/target/guests used_monitor=$here/target/monitor
    if [ $broken = monitor ]; then used_monitor=$monitor; else used_guests=$guests; fi
    build_$broken >>"$log" 2>&1
    BULKHEAD_GUESTS=$used_guests BULKHEAD_MONITOR=$used_monitor cargo test --locked -p bulkhead-system-tests --test scenarios -- "$attack" >"$log.qemu" 2>&1 || true
    found=$(red "$log.qemu")
    if [ -n "$found" ]; then echo "$place: red on QEMU: $found: $(sed -n 's/^ *left: //p' "$log.qemu" | head -1)"; else echo "$place: NOT FOUND on QEMU"; missed=1; fi
done
exit $missed
