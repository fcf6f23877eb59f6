/*
 * Bulkhead: what a native guest written in C finds at fixed addresses, calls and ports. One self-contained header.
 *
 * It says in C what the Rust crates bulkhead-abi and bulkhead-channel say in Rust; a test (sdk/tests/c_header.rs) compares
 * every size, offset and constant, and runs this header's ports against the Rust ones. C11 with the GCC/Clang __atomic
 * builtins; no C library. All functions are static inline: a guest pays for what it uses.
 */
#ifndef BULKHEAD_H
#define BULKHEAD_H

#include <stddef.h>
#include <stdint.h>

#define BULKHEAD_ABI_VERSION 1u
#define BULKHEAD_NAME_BYTES 32u
#define BULKHEAD_MAX_PORTS 16u

/* Fixed guest addresses. */
#define BULKHEAD_GUEST_INFORMATION UINT64_C(0x10000000)
#define BULKHEAD_GUEST_CONSOLE UINT64_C(0x10010000)
#define BULKHEAD_GUEST_CHANNELS UINT64_C(0x10100000)

/* First eight bytes of each structure, as a little-endian number. */
#define BULKHEAD_GUEST_MAGIC UINT64_C(0x3154534555474842)   /* BHGUEST1 */
#define BULKHEAD_CONSOLE_MAGIC UINT64_C(0x3130534e4f434842) /* BHCONS01 */
#define BULKHEAD_WRITER_MAGIC UINT64_C(0x31574e4148434842)  /* BHCHANW1 */
#define BULKHEAD_READER_MAGIC UINT64_C(0x31524e4148434842)  /* BHCHANR1 */

#define BULKHEAD_DIRECTION_SOURCE 1u
#define BULKHEAD_DIRECTION_DESTINATION 2u
#define BULKHEAD_PORT_SAMPLING 1u
#define BULKHEAD_PORT_QUEUING 2u
#define BULKHEAD_NO_DOORBELL UINT32_MAX
#define BULKHEAD_SAMPLING_SLOTS 4u

/* Offsets in a channel window. */
#define BULKHEAD_CHANNEL_STATUS_OFFSET 0u
#define BULKHEAD_CHANNEL_READER_OFFSET 4096u
#define BULKHEAD_CHANNEL_WRITER_OFFSET 8192u
#define BULKHEAD_SLOTS_OFFSET 64u
#define BULKHEAD_CONSOLE_HEADER_BYTES 64u

/* Calls (HVC or SMC) and answers. */
#define BULKHEAD_CALL_VERSION UINT64_C(0xc6000000)
#define BULKHEAD_CALL_HEARTBEAT UINT64_C(0xc6000001)
#define BULKHEAD_CALL_DOORBELL UINT64_C(0xc6000002)
#define BULKHEAD_CALL_PARTITION_STATUS UINT64_C(0xc6000010)
#define BULKHEAD_CALL_PARTITION_SUSPEND UINT64_C(0xc6000011)
#define BULKHEAD_CALL_PARTITION_RESUME UINT64_C(0xc6000012)
#define BULKHEAD_CALL_PARTITION_RESTART UINT64_C(0xc6000013)
#define BULKHEAD_PSCI_SYSTEM_OFF UINT64_C(0x84000008)
#define BULKHEAD_PSCI_SYSTEM_RESET UINT64_C(0x84000009)
#define BULKHEAD_SUCCESS UINT64_C(0)
#define BULKHEAD_LIMITED UINT64_C(1)
#define BULKHEAD_NOT_SUPPORTED UINT64_MAX
#define BULKHEAD_INVALID_PARAMETERS (UINT64_MAX - 1)
#define BULKHEAD_DENIED (UINT64_MAX - 2)

/* States of a partition. */
#define BULKHEAD_STATE_INITIAL 0u
#define BULKHEAD_STATE_RUNNING 1u
#define BULKHEAD_STATE_SUSPENDED 2u
#define BULKHEAD_STATE_OFF 3u
#define BULKHEAD_STATE_RESTARTING 4u
#define BULKHEAD_STATE_STOPPED 5u

/* One port of this guest. */
struct bulkhead_port_information {
    char name[BULKHEAD_NAME_BYTES];
    uint64_t window;        /* guest address of the channel window */
    uint64_t window_bytes;
    uint32_t direction;     /* BULKHEAD_DIRECTION_ */
    uint32_t kind;          /* BULKHEAD_PORT_ */
    uint32_t message_bytes; /* most payload bytes of a message */
    uint32_t slots;
    uint32_t doorbell;      /* source: argument of BULKHEAD_CALL_DOORBELL, or BULKHEAD_NO_DOORBELL */
    uint32_t interrupt;     /* destination: INTID of the doorbell, or 0 */
};

/* The information page, read-only, at BULKHEAD_GUEST_INFORMATION. */
struct bulkhead_guest_information {
    uint64_t magic;         /* BULKHEAD_GUEST_MAGIC */
    uint32_t abi_version;   /* BULKHEAD_ABI_VERSION */
    uint32_t partition;
    char name[BULKHEAD_NAME_BYTES];
    uint64_t counter_hz;
    uint64_t gicd;
    uint64_t gicr;
    uint64_t uart;          /* virtual PL011, or 0 */
    uint64_t console;       /* own console ring, or 0 */
    uint64_t console_bytes;
    uint64_t ram;
    uint64_t ram_bytes;
    uint32_t vcpu_count;
    uint32_t port_count;
    char arguments[256];    /* zero-terminated */
    struct bulkhead_port_information ports[BULKHEAD_MAX_PORTS];
};

/* Head of a console ring; entries of 8 bytes, (ticks << 8) | byte, follow at BULKHEAD_CONSOLE_HEADER_BYTES. */
struct bulkhead_console_header {
    uint64_t magic;
    uint64_t capacity;
    uint64_t written;
    uint64_t reserved;
};

/* Head of a source's area, at BULKHEAD_CHANNEL_WRITER_OFFSET; slots follow at + BULKHEAD_SLOTS_OFFSET. */
struct bulkhead_writer_header {
    uint64_t magic;
    uint32_t kind;
    uint32_t message_bytes;
    uint32_t slots;
    uint32_t latest_pair;
    uint32_t pair_slots;
    uint32_t reserved;
    uint64_t written;
    uint64_t padding[3];
};

/* The destination's page, at BULKHEAD_CHANNEL_READER_OFFSET. */
struct bulkhead_reader_page {
    uint64_t magic;
    uint64_t read;
    uint32_t reading_pair;
    uint32_t reserved;
};

/* Head of a slot; the payload follows. */
struct bulkhead_slot_header {
    uint64_t sequence;
    uint64_t time_ticks;
    uint32_t bytes;
    uint32_t crc;           /* CRC-32C over sequence, time, bytes and payload */
};

/* First fields of the peer's status page, at BULKHEAD_CHANNEL_STATUS_OFFSET, read-only. */
struct bulkhead_peer_status {
    uint32_t state;         /* BULKHEAD_STATE_ */
    uint32_t reason;
    uint32_t generation;    /* changes when the peer was restarted */
    uint32_t restarts;
};

_Static_assert(sizeof(struct bulkhead_port_information) == 72, "layout of bulkhead-abi");
_Static_assert(sizeof(struct bulkhead_writer_header) == 64, "layout of bulkhead-abi");
_Static_assert(sizeof(struct bulkhead_slot_header) == 24, "layout of bulkhead-abi");
