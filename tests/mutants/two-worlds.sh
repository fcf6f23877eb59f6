#!/bin/sh
# Breaks the product of two worlds in one place after the other, builds it, and says which tests went red.
#   two-worlds.sh [PLACE...]      all places, or those that are named
# Works in a copy of the checkout (target/mutants), which it leaves there. A place that no test finds makes it exit 1.
# TESTS names the tests of tests/system/tests/worlds to run (default: all), which takes some ten minutes for each place.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
copy=$here/target/mutants
places="scr_fiq group_enable one_register hand_back crc kick_mask sgi_group overrun"

# change FILE PATTERN TEXT: the one place where FILE has the pattern (of perl) gets the text.
change() {
    perl -0pi -e 'BEGIN { $pattern = shift; $text = shift } $count = s/$pattern/$text/g; END { exit($count != 1) }' "$2" "$3" "$copy/$1" || {
        echo "two-worlds.sh: $1 does not have the place to break exactly once: $2" >&2
        exit 2
    }
}

break_place() {
    case $1 in
        # Secure interrupts no longer come to EL3 while the other world runs.
        scr_fiq) change core/world/src/control.rs 'SCR_BOTH \| 1 \| 1 << 2 \| 1 << 8;' 'SCR_BOTH | 1 | 1 << 8;' ;;
        # The other world's interrupts reach the payload.
        group_enable) change core/world/src/context.rs 'pub const SECURE_GROUP: u64 = 1 << 1;' 'pub const SECURE_GROUP: u64 = 1 << 1 | 1;' ;;
        # Both worlds have the same one.
        one_register) change core/world/src/context.rs '(?s)    \/\/\/ Debug control\.\n    mdscr_el1: "MDSCR_EL1" = "mdscr_el1",' '    /// Debug control.
    mdscr_el1: "MDSCR_EL1" = "csselr_el1",' ;;
        # An urgent interrupt stays in the payload's group when the world runs again.
        hand_back) change core/world/src/handover.rs 'set_group_bit\(registers, IGROUPR, intid, true\);' '' ;;
        # A start takes what is in flash for what was built.
        crc) change core/world/src/restart.rs 'one\.crc == u64::from\(!crc\)' 'one.crc == u64::from(!crc) || crc != 0' ;;
        # Any core may be kicked, those without a right to it too.
        kick_mask) change secure-monitor/src/cores.s 'and     w30, w30, w24(?=\n    cmp     x27, #2)' 'mov     w30, w24' ;;
        # SGIs of other cores arrive where the plan closes them.
        sgi_group) change core/world/src/interrupts.rs 'Owners \{ secure: closed & SGIS & !OF_EL3, el3: OF_EL3 \}' 'Owners { secure: closed & 0, el3: OF_EL3 }' ;;
        # A server whose budget is used up goes on.
        overrun) change sdk/world/freertos/world.c 'happened_from_isr\(BULKHEAD_WORLD_USED_UP, \(unsigned\)\(uintptr_t\)place\);' '(void)place;' ;;
        *) echo "two-worlds.sh: there is no place $1; there are: $places" >&2; exit 2 ;;
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
    red=$(
        cd "$copy"
        {
            cargo test --locked --no-fail-fast -p bulkhead-world || true
            # What does not build is found as well.
            ./x build || echo "test the_build ... FAILED"
            # shellcheck disable=SC2086 # a list of words
            BULKHEAD_GUESTS=$PWD/target/guests cargo test --locked --no-fail-fast -p bulkhead-system-tests --test worlds -- ${TESTS:-} || true
        } >"$log" 2>&1
        sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log" | sort -u | paste -sd, | sed 's/,/, /g'
    )
    if [ -n "$red" ]; then echo "$place: red: $red"; else echo "$place: NOT FOUND"; missed=1; fi
done
exit $missed
