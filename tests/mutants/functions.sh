#!/bin/sh
# Breaks what EL2 does for PCI functions, or what the plan lets a guest reach of them, in one place after the other, and says which tests went red: on the
# host, and on QEMU with the broken monitor or plan.
#   functions.sh [PLACE...]      all places, or those that are named; ON=host or ON=qemu looks there alone
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"
places="filter window silence keep reach registers tables limit lost whose looks counted faults line route held"

# Sets `attack`, the tests on QEMU in which an attack must land; none where QEMU has nothing that would notice. `planner` is set where the plan is broken and not
# the monitor, `crates` where tests of more than the monitor are about it, `hosts` names those of the monitor.
break_place() {
    planner='' crates='' hosts="functions fronts faults calls"
    case $1 in
        # What a guest writes to configuration space reaches the function: base addresses, capabilities.
        filter)
            change core/emulation/src/pci/device.rs '} else if base_address(register).is_some() {' '} else {
            let place = function.configuration.0.wrapping_add(register).wrapping_sub(COMMAND_STATUS);
            port.set_command(PhysicalAddress(place), value as u16);'
            attack=dma::space::configuration
            crates=bulkhead-emulation
            ;;
        # Mastering stays on when a partition ends.
        silence)
            change monitor/src/devices/functions.rs 'if self.functions.refused == 0 && script::run(silence' 'if self.functions.refused == 9 && script::run(silence'
            attack=dma::flight::a_late
            ;;
        # A function is asked within the delay after its reset, which QEMU has not.
        keep)
            change monitor/src/devices/functions.rs 'run.is_past(plan.silence_count as usize)' 'run.is_past(usize::MAX)'
            attack=
            ;;
        # H1 to H3: a function reaches more than its partition's RAM, right behind it.
        reach)
            change core/plan/src/devices/smmu.rs 'output: PhysicalAddress(physical), bytes, attributes: DEVICE_RAM' 'output: PhysicalAddress(physical), bytes: bytes * 4, attributes: DEVICE_RAM'
            attack=dma::a_function
            planner=yes
            crates="bulkhead-plan bulkhead-verify"
            ;;
        # H4 to H6: a function reads interrupt controller and UART. If it wrote there, or to the SMMU, nothing would come to an end.
        registers)
            change core/plan/src/devices/mod.rs 'None => [smmu::device_ram(guest, physical, partition.memory_bytes)].to_vec(),' 'None => [Mapping { attributes: crate::tables::Attributes(smmu::DEVICE_RAM.0 | 1 << 7), ..smmu::device_ram(0x800_0000, 0x800_0000, 0x101_0000) }, smmu::device_ram(guest, physical, partition.memory_bytes)].to_vec(),'
            attack=dma::a_function
            planner=yes
            crates="bulkhead-plan bulkhead-verify"
            ;;
        # H8: what a guest reaches of a register has the tables of messages in it.
        tables)
            change core/plan/src/devices/bars.rs '.filter(|page| !in_tables(*page))' '.filter(|page| !in_tables(*page) || *page != u64::MAX)'
            attack=dma::space::tables
            planner=yes
            crates="bulkhead-plan bulkhead-verify"
            ;;
        # H8: a guest is shown the window of virtio's configuration space into registers. The filter lets nothing through it all the same.
        window)
            change core/plan/src/devices/header.rs 'const VIRTIO_ACCESS: u8 = 5;' 'const VIRTIO_ACCESS: u8 = 6;'
            attack=
            planner=yes
            crates="bulkhead-plan bulkhead-verify"
            ;;
        # H22: every doorbell passes.
        limit)
            change core/sched/src/limiter.rs 'if used >= limit' 'if used >= limit && limit == 0'
            attack=virtio_hostile::storms
            crates=bulkhead-sched
            ;;
        # H15: nobody learns that the SMMU dropped events.
        lost)
            change core/device/src/events.rs 'lost: before.lost.wrapping_add(1)' 'lost: before.lost'
            change core/device/src/events.rs 'before.lost.wrapping_add(u64::from(overflowed))' 'before.lost.wrapping_add(u64::from(overflowed && taken > 99))'
            attack=dma::storms::a_flood
            crates=bulkhead-device
            ;;
        # H15: what others were refused counts as one's own.
        whose)
            change core/device/src/events.rs 'if is_own(entry.stream())' 'if is_own(entry.stream()) || entry.0[0] != 0'
            attack=dma::storms::refused
            crates=bulkhead-device
            ;;
        # Nobody looks a second time.
        looks)
            change monitor/src/devices/functions.rs '        self.look_again(plan);
        self.functions.other_ticks >' '        self.functions.other_ticks >'
            attack=dma::storms::refused
            ;;
        # `dma_faults = "fault"` counts.
        counted)
            change monitor/src/devices/functions.rs 'if found != 0 && plan.events_are_faults != 0' 'if found != 0 && plan.events_are_faults == 9'
            attack=dma::storms::refused
            ;;
        # `dma_faults = "count"` is a fault.
        faults)
            change monitor/src/devices/functions.rs 'if found != 0 && plan.events_are_faults != 0' 'if found != 0 && plan.events_are_faults != 9'
            attack=dma::storms::refused
            ;;
        # H16: the line of one who is not loaded does not wait for him, active and silent, but comes again at once.
        line)
            change monitor/src/sharing/arrivals.rs '            state.hold(intid);' '            state.hold(intid);
            self.machine.deactivate(intid);'
            hosts="--skip siblings::"
            # Who is switched out in its handler has the line active in a list register, so the storm of H16 hardly comes this way: QEMU stays green.
            attack=
            ;;
        # H16: a line comes to the core of another one.
        route)
            change monitor/src/interrupts/mod.rs 'self.route(interrupt.intid, self.plan.mpidr, route);' 'self.route(interrupt.intid, self.plan.mpidr ^ 2, route);'
            # Its guest routes it once more.
            change monitor/src/life/powers.rs 'self.route(intid, route, Route(()));' 'self.route(intid, route ^ 2, Route(()));'
            attack=dma::storms::a_line_that_never_falls_costs
            ;;
        # H16: what was active in an instance stays so in its successor.
        held)
            change monitor/src/interrupts/mod.rs '[gic::ICENABLER, gic::ICPENDR, gic::ICACTIVER]' '[gic::ICENABLER, gic::ICPENDR]'
            attack=dma::storms::a_line_that_is
            ;;
        *) no_place "$1" ;;
    esac
}

try_place() {
    if is_asked host; then
        for crate in $crates; do on_host -p "$crate" --tests; done
        # shellcheck disable=SC2086 # a list of words
        if [ -z "$planner" ]; then on_host -p bulkhead-monitor --features devices --lib -- $hosts; fi
        tell "$1" "the host" "$log"
    fi
    if [ -z "$attack" ] || ! is_asked qemu; then return; fi
    # The plan is made by the test itself, so a broken one needs the copy's tests.
    if [ -n "$planner" ]; then tests=$copy; else use_monitor devices; fi
    on_qemu "$attack"
    tell "$1" QEMU "$log.qemu"
}

try_places "$@"
