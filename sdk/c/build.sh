#!/bin/sh
# Builds a C guest: build.sh OUTPUT.elf SOURCE.c... ; without sources, the example. CROSS_COMPILE names the tool prefix.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "usage: build.sh OUTPUT.elf [SOURCE.c...]" >&2; exit 2; }
output=$1
shift
[ $# -gt 0 ] || set -- "$here/example.c"
"${CROSS_COMPILE:-aarch64-linux-gnu-}gcc" -std=c11 -O2 -g -Wall -Wextra -Werror -ffreestanding -fno-pic -fno-stack-protector \
    -fno-builtin -fno-asynchronous-unwind-tables -mgeneral-regs-only -mno-outline-atomics -mstrict-align -nostdlib -static -no-pie \
    -Wl,--build-id=none -Wl,-z,max-page-size=4096 -T "$here/../bulkhead-guest.ld" -I "$here" \
    "$here/start.S" "$@" -o "$output"
