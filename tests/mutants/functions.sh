#!/bin/sh
# Breaks what EL2 does for PCI functions, or what the plan lets a guest reach of them, in one place after the other, and says which tests went red: on the
# host, and on QEMU with the broken monitor or plan.
#   functions.sh [PLACE...]      all places, or those that are named; ON=host or ON=qemu looks there alone
# Works in a copy of the last commit (target/mutants), which it leaves there; guests, tests on QEMU of a broken monitor, and the monitor of a broken plan are
# those of this checkout (./x build). A place that no test finds, on the host or on QEMU where an attack must land, makes it exit 1.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
copy=$here/target/mutants
monitor=$here/target/mutants-monitor
places="filter silence keep reach tables lost whose looks counted faults line route"

# change FILE TEXT OTHER: the one place where FILE has the text gets the other one.
change() {
    perl -0pi -e 'BEGIN { $text = shift; $other = shift } $count = s/\Q$text\E/$other/g; END { exit($count != 1) }' "$2" "$3" "$copy/$1" || {
        echo "functions.sh: $1 does not have the place to break exactly once: $2" >&2
        exit 2
    }
}

# Sets `attack`, the tests on QEMU in which an attack must land; none where QEMU has nothing that would notice. `planner` is set where the plan is broken and not
# the monitor, `crates` where tests of more than the monitor are about it.
break_place() {
    planner='' crates=''
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
        # H8: what a guest reaches of a register has the tables of messages in it.
        tables)
            change core/plan/src/devices/bars.rs '.filter(|page| !in_tables(*page))' '.filter(|page| !in_tables(*page) || *page != u64::MAX)'
            attack=dma::space::tables
            planner=yes
            crates="bulkhead-plan bulkhead-verify"
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
            # Who is switched out in its handler has the line active in a list register, so the storm of H16 hardly comes this way: QEMU stays green.
            attack=
            ;;
        # H16: a line comes to the core of another one.
        route)
            change monitor/src/interrupts/mod.rs 'self.route(interrupt.intid, self.plan.mpidr, route);' 'self.route(interrupt.intid, self.plan.mpidr ^ 2, route);'
            attack=dma::storms::a_line_that_never_falls_costs
            ;;
        *) echo "functions.sh: there is no place $1; there are: $places" >&2; exit 2 ;;
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
    : >"$log"
    if [ "${ON:-host}" = host ]; then
        for crate in $crates; do
            (cd "$copy" && cargo test --locked --no-fail-fast -p "$crate" --tests) >>"$log" 2>&1 || true
        done
        if [ -z "$planner" ]; then
            (cd "$copy" && cargo test --locked --no-fail-fast -p bulkhead-monitor --features devices --lib) >>"$log" 2>&1 || true
        fi
        found=$(red "$log")
        if [ -n "$found" ]; then echo "$place: red on the host: $found"; else echo "$place: NOT FOUND on the host"; missed=1; fi
    fi
    if [ -z "$attack" ] || [ "${ON:-qemu}" != qemu ]; then continue; fi
    # The plan is made by the test itself, so a broken one needs the copy's tests.
    used=$here/target/monitor tests=$copy
    if [ -z "$planner" ]; then
        (cd "$copy" && cargo build --locked --profile bare --target aarch64-unknown-none-softfloat --package bulkhead-monitor --no-default-features --features devices) >>"$log" 2>&1
        cp "$copy/target/aarch64-unknown-none-softfloat/bare/bulkhead-monitor" "$monitor/devices.elf"
        used=$monitor tests=$here
    fi
    (cd "$tests" && BULKHEAD_GUESTS=$here/target/guests BULKHEAD_MONITOR=$used cargo test --locked -p bulkhead-system-tests --test scenarios -- "$attack") >"$log.qemu" 2>&1 || true
    found=$(red "$log.qemu")
    if [ -n "$found" ]; then echo "$place: red on QEMU: $found"; else echo "$place: NOT FOUND on QEMU"; missed=1; fi
done
exit $missed
