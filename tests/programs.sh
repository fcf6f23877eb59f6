# shellcheck shell=sh
# Which test programs there are and in which order they run; a part of x.

# Test programs that take longest, by folder and name: they begin first, so that none of them is left alone at the end.
longest='tests/system scenarios
tests/system worlds
the other boards
tests/system kernel
tests/book listings
bench experiments
bench ceilings
monitor bulkhead_monitor
core/analysis runs
core/objects random_processes
monitor bulkhead_monitor, part hybrid
monitor bulkhead_monitor, part own'

# test_programs MADE LABEL [ARGUMENTS] prints a line for tests/side_by_side.sh for each test program of what cargo made.
test_programs() {
    awk -v root="$(pwd -P)/" -v label="$2" -v arguments="${3:-}" '
        # What stands behind a text, until the next quotation mark.
        function behind(text, rest) {
            rest = substr($0, index($0, text) + length(text))
            return substr(rest, 1, index(rest, "\"") - 1)
        }
        index($0, "\"test\":true},\"features\"") && index($0, "\"executable\":\"") {
            folder = behind("\"manifest_path\":\"")
            sub("/Cargo.toml$", "", folder)
            title = index(folder, root) == 1 ? substr(folder, length(root) + 1) : folder
            printf "%s\t%s %s%s\t\047%s\047 %s\n", folder, title, behind("],\"name\":\""), label, behind("\"executable\":\""), arguments
        }' "$1"
}

# program_of FILE TITLE prints the program of that line. FILE has lines of `test_programs`.
program_of() {
    awk -F '\t' -v title="$2" '$2 == title { print $3 }' "$1"
}

# in_order FILE prints its lines, the longest first. One that is not there was renamed, or cargo writes down what it made in another way.
in_order() {
    printf '%s\n' "$longest" | awk -F '\t' '
        NR == FNR { place[$0] = ++count; name[count] = $0; next }
        $2 in place { early[place[$2]] = early[place[$2]] $0 "\n"; next }
        { late = late $0 "\n" }
        END {
            for (i = 1; i <= count; i++) {
                if (!(i in early)) { print "x: there is no test program " name[i] >"/dev/stderr"; exit 1 }
                printf "%s", early[i]
            }
            printf "%s", late
        }' - "$1"
}
