#!/bin/sh
# Breaks what tells a vCPU of a shared core something, in one place after the other, and says which tests went red: on the host, and on QEMU with the
# broken monitor.
#   siblings.sh [PLACE...]      all places, or those that are named; ON=host or ON=qemu looks there alone
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"
places="post on report slow deep clear park"

# Sets `hosts`, the tests of the monitor on the host, and `attack`, those on QEMU in which an attack must land; none where one of them has nothing
# that would notice.
break_place() {
    hosts=posting attack=shared_siblings
    case $1 in
        # A post calls the other core also when one waits there already.
        post) change monitor/src/sharing/posting.rs 'if posts::post(&words.posted, 1u32.wrapping_shl(intid)) {' 'if posts::post(&words.posted, 1u32.wrapping_shl(intid)) | true {' ;;
        # CPU_ON of a vCPU whose start is pending calls its core again.
        on) change monitor/src/exits/call.rs 'if state & vcpu_state::CLAIMED != 0 => Error::OnPending' 'if state & vcpu_state::CLAIMED != 0 => { self.send_sgi_to_vcpu(vcpu, crate::interrupts::MONITOR_SGI); Error::OnPending.answer() }
            Err(state) if state & vcpu_state::CLAIMED != 0 => Error::OnPending' ;;
        # Each report to vCPU 0 calls the core of a vCPU whose start is pending, although that core has heard of it.
        report) change monitor/src/sharing/posting.rs 'if has_heard { u32::MAX }' 'if has_heard && vcpu > 7 { u32::MAX }' ;;
        # A call of siblings takes longer than `check` counts for an entry.
        slow)
            change monitor/src/sharing/posting.rs 'self.count(Counter::MonitorInterrupt);' 'self.count(Counter::MonitorInterrupt); for _ in 0..10_000 { self.machine.barrier(); }'
            hosts='' attack=freertos_beside_two_cpus
            ;;
        # A call of siblings takes more of the stack than calls inside of calls may.
        deep)
            change monitor/src/sharing/posting.rs 'self.count(Counter::MonitorInterrupt);' 'self.count(Counter::MonitorInterrupt); core::hint::black_box(&mut [intid; 512]);'
            hosts='' attack=calls_inside_of_calls
            ;;
        # A sibling clears what waits active for a vCPU that is away.
        clear)
            change monitor/src/interrupts/noted.rs 'if self.partition.shared_vcpus > 1' 'if self.partition.shared_vcpus > 255'
            attack=
            ;;
        # One that is to stand is said to, and can still be given its core. Another test of posts would wait for ever.
        park)
            change monitor/src/sharing/posting.rs 'scheduler.park(number, now);' ''
            hosts=a_vcpu_is_parked attack=flapping::six_vcpus_of_which
            ;;
        *) no_place "$1" ;;
    esac
}

try_place() {
    if [ -n "$hosts" ] && is_asked host; then
        on_host -p bulkhead-monitor --lib -- "$hosts"
        tell "$1" 'the host' "$log"
    fi
    if [ -n "$attack" ] && is_asked qemu; then
        use_monitor shared
        on_qemu "$attack"
        tell "$1" QEMU "$log.qemu"
    fi
}

try_places "$@"
