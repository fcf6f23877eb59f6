# What the scripts of this folder share, each of which breaks one place after the other and says which tests went red. Such a script takes this file in with
# `.`, sets `places`, defines `break_place` and `try_place`, and calls `try_places`:
#   break_place PLACE      breaks that place of the copy by `change`
#   try_place PLACE        tests the copy by `on_host`, `on_qemu` and what builds for it, and says what came of it by `tell`
#
# The copy is one of the last commit (target/mutants), which is left there; what is not built of it for a place is that of this checkout (./x build).
# A place that no test finds, on the host or on QEMU where an attack must land, makes the script exit 1. ON=places breaks and tests nothing: it looks whether each place is there exactly once in this
# checkout, and `tests/ledger/tests/mutants.rs` does that with all scripts.
set -eu
cd "$(dirname "$0")/../.."
script=$(basename "$0")
here=$PWD
copy=$here/target/mutants
bare_target=aarch64-unknown-none-softfloat
missed=0

# change FILE TEXT OTHER: the one place where FILE has the text gets the other one.
change() {
    if [ "${ON:-}" = places ]; then
        perl -0ne 'BEGIN { $text = shift; $other = shift } $count = () = /\Q$text\E/g; END { exit($count != 1 || $text eq $other) }' "$2" "$3" "$here/$1" || {
            echo "$place: $1 does not have the place to break exactly once: $2" >&2
            missed=1
        }
        return
    fi
    perl -0pi -e 'BEGIN { $text = shift; $other = shift } $count = s/\Q$text\E/$other/g; END { exit($count != 1) }' "$2" "$3" "$copy/$1" || {
        echo "$script: $1 does not have the place to break exactly once: $2" >&2
        exit 2
    }
}

# no_place PLACE: it is none of this script's.
no_place() {
    # shellcheck disable=SC2154 # a script sets it
    echo "$script: there is no place $1; there are: $places" >&2
    exit 2
}

# is_asked WHERE: whether tests there are asked for: ON=host or ON=qemu looks there alone.
is_asked() { [ "${ON:-$1}" = "$1" ]; }

# red LOG: the tests that failed. What does not build is found as well.
red() {
    sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p; s/^error: could not compile.*/the build/p' "$1" | sort -u | paste -sd, | sed 's/,/, /g'
}

# tell PLACE WHERE LOG: says which tests went red there, and the first thing that one of them found.
tell() {
    found=$(red "$3")
    if [ -z "$found" ]; then
        echo "$1: NOT FOUND on $2"
        missed=1
        return
    fi
    echo "$1: red on $2: $found: $(grep -A 1 ' panicked at ' "$3" | sed '1d; q' | cut -c 1-120) $(sed -n 's/^ *left: //p' "$3" | head -1 | cut -c 1-120)"
}

# on_host ARGUMENTS...: runs tests of the copy on the host, and adds what they say to the place's log.
on_host() {
    (cd "$copy" && cargo test --locked --no-fail-fast "$@") >>"$log" 2>&1 || true
}

# on_qemu TESTS: runs these tests on QEMU with the guests and the monitor that are set. `tests` is the checkout that they are of.
on_qemu() {
    (cd "$tests" && BULKHEAD_GUESTS=$guests BULKHEAD_MONITOR=$monitor cargo test --locked --no-fail-fast -p bulkhead-system-tests --test scenarios -- "$@") >"$log.qemu" 2>&1 || true
}

# use_monitor PART: builds a part of the copy's monitor for QEMU.
use_monitor() {
    monitor=$here/target/mutants-monitor
    mkdir -p "$monitor"
    (cd "$copy" && cargo build --locked --profile bare --target $bare_target --package bulkhead-monitor --no-default-features --features "$1") >>"$log" 2>&1
    cp "$copy/target/$bare_target/bare/bulkhead-monitor" "$monitor/$1.elf"
}

# link_guests: a folder for the copy's guests, beside those of this checkout.
link_guests() {
    guests=$here/target/mutants-guests
    rm -rf "$guests"
    mkdir -p "$guests/linux"
    for guest in "$here"/target/guests/*.elf "$here"/target/guests/linux/Image "$here"/target/guests/linux/initramfs*.gz; do
        ln -sf "$guest" "$guests${guest#"$here"/target/guests}"
    done
}

# use_guest NAME: builds a native guest of the copy for QEMU.
use_guest() {
    link_guests
    (cd "$copy" && cargo build --locked --profile bare --target $bare_target --package "bulkhead-guest-$1") >>"$log" 2>&1
    rm -f "$guests/$1.elf"
    cp "$copy/target/$bare_target/bare/bulkhead-guest-$1" "$guests/$1.elf"
}

# try_places [PLACE...]: tries these places, or all of them.
try_places() {
    if [ "${ON:-}" = places ]; then
        # shellcheck disable=SC2086 # a list of words
        for place in $places; do break_place "$place"; done
        exit $missed
    fi
    # A copy that was removed by hand is still known.
    git worktree prune
    [ -d "$copy" ] || git worktree add -q --detach "$copy" HEAD
    [ $# -gt 0 ] || {
        # shellcheck disable=SC2086 # a list of words
        set -- $places
    }
    for place; do
        git -C "$copy" checkout -q --force --detach "$(git rev-parse HEAD)"
        log=$here/target/mutants-$place.log
        : >"$log"
        guests=$here/target/guests monitor=$here/target/monitor tests=$here
        break_place "$place"
        try_place "$place"
    done
    exit $missed
}
