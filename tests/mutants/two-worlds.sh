#!/bin/sh
# Breaks the product of two worlds in one place after the other, builds it, and says which tests went red.
#   two-worlds.sh [PLACE...]      all places, or those that are named; ON=host or ON=qemu looks there alone
# TESTS names the tests of tests/system/tests/worlds to run (default: all), which takes some ten minutes for each place.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"
places="scr_fiq group_enable one_register hand_back crc kick_mask sgi_group overrun"

break_place() {
    case $1 in
        # Secure interrupts no longer come to EL3 while the other world runs.
        scr_fiq) change core/world/src/control.rs 'SCR_BOTH | 1 | 1 << 2 | 1 << 8;' 'SCR_BOTH | 1 | 1 << 8;' ;;
        # The other world's interrupts reach the payload.
        group_enable) change core/world/src/context.rs 'pub const SECURE_GROUP: u64 = 1 << 1;' 'pub const SECURE_GROUP: u64 = 1 << 1 | 1;' ;;
        # Both worlds have the same one.
        one_register) change core/world/src/context.rs '    /// Debug control.
    mdscr_el1: "MDSCR_EL1" = "mdscr_el1",' '    /// Debug control.
    mdscr_el1: "MDSCR_EL1" = "csselr_el1",' ;;
        # An urgent interrupt stays in the payload's group when the world runs again.
        hand_back) change core/world/src/handover.rs 'set_group_bit(registers, IGROUPR, intid, true);' '' ;;
        # A start takes what is in flash for what was built.
        crc) change core/world/src/restart.rs 'one.crc == u64::from(!crc)' 'one.crc == u64::from(!crc) || crc != 0' ;;
        # Any core may be kicked, those without a right to it too.
        kick_mask) change secure-monitor/src/cores.s 'and     w30, w30, w24
    cmp     x27, #2' 'mov     w30, w24
    cmp     x27, #2' ;;
        # SGIs of other cores arrive where the plan closes them.
        sgi_group) change core/world/src/interrupts.rs 'Owners { secure: closed & SGIS & !OF_EL3, el3: OF_EL3 }' 'Owners { secure: closed & 0, el3: OF_EL3 }' ;;
        # A server whose budget is used up goes on.
        overrun) change sdk/world/freertos/world.c 'happened_from_isr(BULKHEAD_WORLD_USED_UP, (unsigned)(uintptr_t)place);' '(void)place;' ;;
        *) no_place "$1" ;;
    esac
}

try_place() {
    if is_asked host; then on_host -p bulkhead-world; fi
    if is_asked qemu; then
        mkdir -p "$copy/.cache"
        ln -sfn "$here/.cache/linux" "$copy/.cache/linux"
        # What does not build is found as well.
        (cd "$copy" && ./x build) >>"$log" 2>&1 || echo "test the_build ... FAILED" >>"$log"
        # shellcheck disable=SC2086 # a list of words
        (cd "$copy" && BULKHEAD_GUESTS=$copy/target/guests cargo test --locked --no-fail-fast -p bulkhead-system-tests --test worlds -- ${TESTS:-}) >>"$log" 2>&1 || true
    fi
    # Some are a matter of the real controller alone.
    tell "$1" "the host or QEMU" "$log"
}

try_places "$@"
