#!/bin/sh
# Runs programs two at a time: tests/side_by_side.sh LIST. A line of LIST has three parts with tabs between: a folder to run
# in, a title, and a command as the shell reads it. Fails when one of them does, and names each of these at the end.
#
# What a program prints is shown when it has ended, so that the lines of two never mix. Two and no more: a test program runs
# its own tests side by side, and the second one is there for the times in which the first has only one of them left.
set -eu

say() { printf 'x: %s\n' "$*" >&2; }

# count FILE prints how many lines it has.
count() { sed -n '$=' "$1" | grep . || echo 0; }

# one LIST FOLDER NUMBER runs one line. It always succeeds, as xargs would start no other after some failures.
one() {
    list=$1 folder=$2 number=$3
    # A tab alone parts them: titles and folders may have spaces.
    IFS='	' read -r directory title command <<LINE
$(sed -n "${number}p" "$list")
LINE
    say "begins: $title"
    start=$(date +%s)
    verdict=passed
    (cd "$directory" && eval "$command") >"$folder/output-$number" 2>&1 </dev/null || verdict=FAILED
    took=$(($(date +%s) - start))
    {
        flock 9
        printf '%s\n' "$number" >>"$folder/$verdict"
        say "$verdict after $took s: $title ($(($(count "$folder/passed") + $(count "$folder/FAILED"))) of $(count "$list") have ended)"
        cat "$folder/output-$number"
    } 9>"$folder/lock"
    # That of one that failed is looked at once more at the end.
    [ $verdict = FAILED ] || rm "$folder/output-$number"
}

# all LIST runs every line of it.
all() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 130' INT TERM
    : >"$folder/passed"
    : >"$folder/FAILED"
    lines=$(count "$1")
    [ "$lines" != 0 ] || {
        say "there is no program to run"
        exit 1
    }
    seq "$lines" | xargs -n 1 -P 2 sh "$0" "$1" "$folder" || true
    passed=$(count "$folder/passed")
    say "$passed of $lines programs passed"
    for number in $(seq "$lines"); do
        # One whose shell was killed, and those that xargs then did not start, have no verdict.
        grep -qx "$number" "$folder/passed" || say "FAILED, or did not end: $(sed -n "${number}p" "$1" | cut -f 2)"
        [ ! -f "$folder/output-$number" ] || sed -n 's/^test \(.*\) \.\.\. FAILED$/x:     \1/p' "$folder/output-$number" >&2
    done
    [ "$passed" = "$lines" ]
}

if [ $# = 1 ]; then all "$1"; else one "$@"; fi
