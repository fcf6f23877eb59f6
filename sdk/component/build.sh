#!/bin/sh
# Builds a component in C: build.sh [--floating-point] OUTPUT.elf SOURCE.c... CROSS_COMPILE names the tool prefix.
#   --floating-point   it computes with floating point; its description says `floating_point = true`, or `check` refuses it (BH1295).
#                      Each operation is rounded by itself, as in Rust and on the host.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
registers=-mgeneral-regs-only
if [ "${1-}" = --floating-point ]; then
    registers=-ffp-contract=off
    shift
fi
[ $# -ge 2 ] || { echo "usage: build.sh [--floating-point] OUTPUT.elf SOURCE.c..." >&2; exit 2; }
output=$1
shift
"${CROSS_COMPILE:-aarch64-linux-gnu-}gcc" -std=c11 -O2 -Wall -Wextra -Werror -ffreestanding -fno-pic -fno-stack-protector \
    -fno-builtin -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns "$registers" -mno-outline-atomics -mstrict-align \
    -nostdlib -static -no-pie \
    -Wl,--build-id=none -Wl,-z,max-page-size=4096 -Wl,--fatal-warnings -T "$here/component.ld" -I "$here/include" \
    "$@" -o "$output"
