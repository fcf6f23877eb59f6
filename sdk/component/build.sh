#!/bin/sh
# Builds a component in C: build.sh OUTPUT.elf SOURCE.c... CROSS_COMPILE names the tool prefix.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { echo "usage: build.sh OUTPUT.elf SOURCE.c..." >&2; exit 2; }
output=$1
shift
"${CROSS_COMPILE:-aarch64-linux-gnu-}gcc" -std=c11 -O2 -Wall -Wextra -Werror -ffreestanding -fno-pic -fno-stack-protector \
    -fno-builtin -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -mgeneral-regs-only -mno-outline-atomics -mstrict-align \
    -nostdlib -static -no-pie \
    -Wl,--build-id=none -Wl,-z,max-page-size=4096 -Wl,--fatal-warnings -T "$here/component.ld" -I "$here/include" \
    "$@" -o "$output"
