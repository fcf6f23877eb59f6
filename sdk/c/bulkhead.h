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

#define BULKHEAD_ABI_VERSION 4u
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
    uint32_t epoch;         /* incarnation of the source, never zero while open */
    uint64_t written;
    uint64_t acknowledged;
    uint64_t padding[2];
};

/* The destination's page, at BULKHEAD_CHANNEL_READER_OFFSET. */
struct bulkhead_reader_page {
    uint64_t magic;
    uint64_t read;
    uint32_t reading_pair;
    uint32_t epoch;         /* the source's, to which `read` belongs */
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
_Static_assert(BULKHEAD_GUEST_INFORMATION % 4096 == 0, "pages");

/* Answers of the port functions. Errors are negative and say who is at fault. */
enum bulkhead_result {
    BULKHEAD_OK = 0,
    BULKHEAD_BAD_PORT = -1,     /* the plan's facts of the port do not fit together, or it is of the other kind */
    BULKHEAD_BAD_LENGTH = -2,   /* the caller's message or buffer has the wrong size */
    BULKHEAD_FULL = -3,         /* nobody: the queue is full */
    BULKHEAD_EMPTY = -4,        /* nobody: no message, or no value yet */
    BULKHEAD_PEER_CLOSED = -5,  /* nobody: the source has not opened its port, or is being restarted */
    BULKHEAD_PEER_RESET = -6,   /* nobody: the source was restarted; the next call reads from its new incarnation */
    BULKHEAD_PEER_CORRUPT = -7  /* the peer: its memory is rubbish; a bad message of a queue was dropped */
};

/* An open port. All fields are this end's own; nothing here is shared. */
struct bulkhead_port {
    volatile uint64_t *words;   /* the channel window */
    uint32_t kind;
    uint32_t message_bytes;
    uint32_t slots;
    uint32_t doorbell;
    uint32_t epoch;
    uint32_t pair_slots;        /* sampling source: newest slot of each pair */
    uint64_t count;             /* source: written; queuing destination: read; sampling destination: last sequence */
    uint64_t acknowledged;      /* queuing source: highest believable count of the destination */
};

/* A message that arrived. */
struct bulkhead_message {
    uint64_t sequence;
    uint64_t time_ticks;
    uint32_t bytes;
    uint32_t is_new;            /* sampling: it was not returned before */
};

/* Word offsets in a window; fields of 32 bits that share a word have one writer. */
enum {
    BULKHEAD_WORD_STATE = BULKHEAD_CHANNEL_STATUS_OFFSET / 8,
    BULKHEAD_WORD_GENERATION = BULKHEAD_CHANNEL_STATUS_OFFSET / 8 + 1,
    BULKHEAD_WORD_READER_MAGIC = BULKHEAD_CHANNEL_READER_OFFSET / 8,
    BULKHEAD_WORD_READER_READ = BULKHEAD_CHANNEL_READER_OFFSET / 8 + 1,
    BULKHEAD_WORD_READER_PAIR_EPOCH = BULKHEAD_CHANNEL_READER_OFFSET / 8 + 2,
    BULKHEAD_WORD_WRITER_MAGIC = BULKHEAD_CHANNEL_WRITER_OFFSET / 8,
    BULKHEAD_WORD_WRITER_KIND_BYTES = BULKHEAD_CHANNEL_WRITER_OFFSET / 8 + 1,
    BULKHEAD_WORD_WRITER_SLOTS_LATEST = BULKHEAD_CHANNEL_WRITER_OFFSET / 8 + 2,
    BULKHEAD_WORD_WRITER_PAIRS_EPOCH = BULKHEAD_CHANNEL_WRITER_OFFSET / 8 + 3,
    BULKHEAD_WORD_WRITER_WRITTEN = BULKHEAD_CHANNEL_WRITER_OFFSET / 8 + 4,
    BULKHEAD_WORD_WRITER_ACKNOWLEDGED = BULKHEAD_CHANNEL_WRITER_OFFSET / 8 + 5
};

static inline uint64_t bulkhead_load(const struct bulkhead_port *port, size_t word) {
    return __atomic_load_n(&port->words[word], __ATOMIC_RELAXED);
}

static inline uint64_t bulkhead_load_acquire(const struct bulkhead_port *port, size_t word) {
    return __atomic_load_n(&port->words[word], __ATOMIC_ACQUIRE);
}

static inline void bulkhead_store(const struct bulkhead_port *port, size_t word, uint64_t value) {
    __atomic_store_n(&port->words[word], value, __ATOMIC_RELAXED);
}

static inline void bulkhead_store_release(const struct bulkhead_port *port, size_t word, uint64_t value) {
    __atomic_store_n(&port->words[word], value, __ATOMIC_RELEASE);
}

static inline uint64_t bulkhead_pack(uint32_t low, uint32_t high) { return (uint64_t)low | ((uint64_t)high << 32); }
static inline uint32_t bulkhead_low(uint64_t word) { return (uint32_t)word; }
static inline uint32_t bulkhead_high(uint64_t word) { return (uint32_t)(word >> 32); }

/* CRC-32C (Castagnoli), bit by bit: continues from `crc`, which starts as all ones and is inverted at the end. */
static inline uint32_t bulkhead_crc_update(uint32_t crc, uint8_t byte) {
    crc ^= byte;
    for (unsigned bit = 0; bit < 8; bit++)
        crc = (crc >> 1) ^ (UINT32_C(0x82f63b78) & (uint32_t)-(int32_t)(crc & 1));
    return crc;
}

static inline uint32_t bulkhead_crc_words(uint32_t crc, uint64_t value, unsigned bytes) {
    for (unsigned index = 0; index < bytes; index++)
        crc = bulkhead_crc_update(crc, (uint8_t)(value >> (8 * index)));
    return crc;
}

/* Checksum of a message: over sequence, time, length and payload, in the order of their addresses. */
static inline uint32_t bulkhead_checksum(uint64_t sequence, uint64_t time_ticks, uint32_t bytes, const uint8_t *payload) {
    uint32_t crc = UINT32_MAX;
    crc = bulkhead_crc_words(crc, sequence, 8);
    crc = bulkhead_crc_words(crc, time_ticks, 8);
    crc = bulkhead_crc_words(crc, bytes, 4);
    for (uint32_t index = 0; index < bytes; index++)
        crc = bulkhead_crc_update(crc, payload[index]);
    return ~crc;
}

/* First word of a slot. `slot` is below the number of slots. */
static inline size_t bulkhead_slot_word(const struct bulkhead_port *port, uint32_t slot) {
    uint64_t stride = ((uint64_t)sizeof(struct bulkhead_slot_header) + port->message_bytes + 63) / 64 * 64;
    return (size_t)((BULKHEAD_CHANNEL_WRITER_OFFSET + BULKHEAD_SLOTS_OFFSET + stride * slot) / 8);
}

/* Bytes of a window that a port with these parameters uses. */
static inline uint64_t bulkhead_window_bytes(const struct bulkhead_port *port) {
    uint64_t area = (uint64_t)bulkhead_slot_word(port, port->slots) * 8 - BULKHEAD_CHANNEL_WRITER_OFFSET;
    return BULKHEAD_CHANNEL_WRITER_OFFSET + (area + 4095) / 4096 * 4096;
}

static inline void bulkhead_write_slot(const struct bulkhead_port *port, uint32_t slot, const void *payload, uint32_t bytes,
                                       uint64_t sequence, uint64_t now_ticks) {
    const uint8_t *from = payload;
    size_t at = bulkhead_slot_word(port, slot);
    bulkhead_store(port, at++, sequence);
    bulkhead_store(port, at++, now_ticks);
    bulkhead_store(port, at++, bulkhead_pack(bytes, bulkhead_checksum(sequence, now_ticks, bytes, from)));
    for (uint32_t index = 0; index < bytes; index += 8) {
        uint64_t word = 0;
        for (uint32_t byte = 0; byte < 8 && index + byte < bytes; byte++)
            word |= (uint64_t)from[index + byte] << (8 * byte);
        bulkhead_store(port, at++, word);
    }
}

/* Copies a slot into the caller's buffer and judges the copy. */
static inline int bulkhead_read_slot(const struct bulkhead_port *port, uint32_t slot, void *buffer,
                                     struct bulkhead_message *message) {
    uint8_t *to = buffer;
    size_t at = bulkhead_slot_word(port, slot);
    uint64_t sequence = bulkhead_load(port, at);
    uint64_t time_ticks = bulkhead_load(port, at + 1);
    uint64_t length = bulkhead_load(port, at + 2);
    uint32_t bytes = bulkhead_low(length);
    if (bytes == 0 || bytes > port->message_bytes)
        return BULKHEAD_PEER_CORRUPT;
    for (uint32_t index = 0; index < bytes; index += 8) {
        uint64_t word = bulkhead_load(port, at + 3 + index / 8);
        for (uint32_t byte = 0; byte < 8 && index + byte < bytes; byte++)
            to[index + byte] = (uint8_t)(word >> (8 * byte));
    }
    if (bulkhead_checksum(sequence, time_ticks, bytes, to) != bulkhead_high(length))
        return BULKHEAD_PEER_CORRUPT;
    message->sequence = sequence;
    message->time_ticks = time_ticks;
    message->bytes = bytes;
    message->is_new = 1;
    return BULKHEAD_OK;
}

/* Epoch of the source: BULKHEAD_OK with 0 in `epoch` while it is closed. */
static inline int bulkhead_source_epoch(const struct bulkhead_port *port, uint32_t *epoch) {
    uint64_t magic = bulkhead_load_acquire(port, BULKHEAD_WORD_WRITER_MAGIC);
    *epoch = 0;
    if (magic == 0)
        return BULKHEAD_OK;
    if (magic != BULKHEAD_WRITER_MAGIC ||
        bulkhead_load(port, BULKHEAD_WORD_WRITER_KIND_BYTES) != bulkhead_pack(port->kind, port->message_bytes) ||
        bulkhead_low(bulkhead_load(port, BULKHEAD_WORD_WRITER_SLOTS_LATEST)) != port->slots)
        return BULKHEAD_PEER_CORRUPT;
    *epoch = bulkhead_high(bulkhead_load_acquire(port, BULKHEAD_WORD_WRITER_PAIRS_EPOCH));
    return BULKHEAD_OK;
}

static inline int bulkhead_destination_is_open(const struct bulkhead_port *port) {
    return bulkhead_load_acquire(port, BULKHEAD_WORD_READER_MAGIC) == BULKHEAD_READER_MAGIC;
}

/* States whether a source that has written `written` and a destination that has read `read` can both be right. */
static inline int bulkhead_counters_agree(const struct bulkhead_port *port, uint64_t read, uint64_t written) {
    return read <= written && written - read <= port->slots;
}

static inline int bulkhead_prepare(struct bulkhead_port *port, const struct bulkhead_port_information *information,
                                   uint32_t direction) {
    port->words = (volatile uint64_t *)(uintptr_t)information->window;
    port->kind = information->kind;
    port->message_bytes = information->message_bytes;
    port->slots = information->slots;
    port->doorbell = information->doorbell;
    port->epoch = 0;
    port->pair_slots = 0;
    port->count = 0;
    port->acknowledged = 0;
    if (information->direction != direction || port->message_bytes == 0 || port->message_bytes > 4032)
        return BULKHEAD_BAD_PORT;
    if (!(port->kind == BULKHEAD_PORT_SAMPLING && port->slots == BULKHEAD_SAMPLING_SLOTS) &&
        !(port->kind == BULKHEAD_PORT_QUEUING && port->slots >= 1 && port->slots <= 65536))
        return BULKHEAD_BAD_PORT;
    return information->window_bytes >= bulkhead_window_bytes(port) ? BULKHEAD_OK : BULKHEAD_BAD_PORT;
}

/* Takes over what an earlier program of this partition left in its own area; 0 when there is nothing to go on with. */
static inline int bulkhead_resume_source(struct bulkhead_port *port) {
    uint32_t epoch;
    if (bulkhead_source_epoch(port, &epoch) != BULKHEAD_OK || epoch == 0)
        return 0;
    port->count = bulkhead_load(port, BULKHEAD_WORD_WRITER_WRITTEN);
    if (port->kind == BULKHEAD_PORT_QUEUING) {
        port->acknowledged = bulkhead_load(port, BULKHEAD_WORD_WRITER_ACKNOWLEDGED);
        if (!bulkhead_counters_agree(port, port->acknowledged, port->count))
            return 0;
    } else {
        uint32_t pair = bulkhead_high(bulkhead_load(port, BULKHEAD_WORD_WRITER_SLOTS_LATEST)) & 1;
        port->pair_slots = bulkhead_low(bulkhead_load(port, BULKHEAD_WORD_WRITER_PAIRS_EPOCH)) & 3;
        /* A program that ended between publishing a value and its count has used the value's number all the same. */
        uint64_t newest = bulkhead_load(port, bulkhead_slot_word(port, (pair << 1) | ((port->pair_slots >> pair) & 1)));
        if (newest > port->count)
            port->count = newest;
    }
    port->epoch = epoch;
    return 1;
}

/* Opens a source port. `now_ticks` is the counter's value (bulkhead_counter_ticks). */
static inline int bulkhead_open_source(struct bulkhead_port *port, const struct bulkhead_port_information *information,
                                       uint64_t now_ticks) {
    int result = bulkhead_prepare(port, information, BULKHEAD_DIRECTION_SOURCE);
    if (result != BULKHEAD_OK || bulkhead_resume_source(port))
        return result;
    uint32_t echoed = bulkhead_high(bulkhead_load_acquire(port, BULKHEAD_WORD_READER_PAIR_EPOCH));
    uint32_t epoch = bulkhead_low(now_ticks);
    while (epoch == 0 || epoch == echoed)
        epoch++;
    port->epoch = epoch;
    port->pair_slots = 0;
    port->count = 0;
    port->acknowledged = 0;
    bulkhead_store(port, BULKHEAD_WORD_WRITER_MAGIC, 0);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    bulkhead_store(port, BULKHEAD_WORD_WRITER_KIND_BYTES, bulkhead_pack(port->kind, port->message_bytes));
    bulkhead_store(port, BULKHEAD_WORD_WRITER_SLOTS_LATEST, bulkhead_pack(port->slots, 0));
    bulkhead_store(port, BULKHEAD_WORD_WRITER_WRITTEN, 0);
    bulkhead_store(port, BULKHEAD_WORD_WRITER_ACKNOWLEDGED, 0);
    bulkhead_store(port, BULKHEAD_WORD_WRITER_PAIRS_EPOCH, bulkhead_pack(0, epoch));
    bulkhead_store_release(port, BULKHEAD_WORD_WRITER_MAGIC, BULKHEAD_WRITER_MAGIC);
    return BULKHEAD_OK;
}

/* Opens a destination port. */
static inline int bulkhead_open_destination(struct bulkhead_port *port,
                                            const struct bulkhead_port_information *information) {
    int result = bulkhead_prepare(port, information, BULKHEAD_DIRECTION_DESTINATION);
    if (result != BULKHEAD_OK)
        return result;
    if (bulkhead_destination_is_open(port)) {
        port->epoch = bulkhead_high(bulkhead_load(port, BULKHEAD_WORD_READER_PAIR_EPOCH));
        if (port->kind == BULKHEAD_PORT_QUEUING)
            port->count = bulkhead_load(port, BULKHEAD_WORD_READER_READ);
        return BULKHEAD_OK;
    }
    bulkhead_store(port, BULKHEAD_WORD_READER_PAIR_EPOCH, 0);
    if (port->kind == BULKHEAD_PORT_QUEUING)
        bulkhead_store(port, BULKHEAD_WORD_READER_READ, 0);
    bulkhead_store_release(port, BULKHEAD_WORD_READER_MAGIC, BULKHEAD_READER_MAGIC);
    return BULKHEAD_OK;
}

/* Publishes a value on a sampling source port (Simpson's four slots). Ring the doorbell afterwards. */
static inline int bulkhead_sampling_write(struct bulkhead_port *port, const void *payload, uint32_t bytes,
                                          uint64_t now_ticks) {
    if (port->kind != BULKHEAD_PORT_SAMPLING)
        return BULKHEAD_BAD_PORT;
    if (bytes == 0 || bytes > port->message_bytes)
        return BULKHEAD_BAD_LENGTH;
    /* Publishing the value before (stores) is ordered before looking at the announcement (load). */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint32_t pair = (bulkhead_low(bulkhead_load_acquire(port, BULKHEAD_WORD_READER_PAIR_EPOCH)) & 1) ^ 1;
    uint32_t slot = ((port->pair_slots >> pair) & 1) ^ 1;
    bulkhead_write_slot(port, (pair << 1) | slot, payload, bytes, port->count + 1, now_ticks);
    port->count++;
    port->pair_slots = (port->pair_slots & ~(1u << pair)) | (slot << pair);
    bulkhead_store_release(port, BULKHEAD_WORD_WRITER_PAIRS_EPOCH, bulkhead_pack(port->pair_slots, port->epoch));
    bulkhead_store_release(port, BULKHEAD_WORD_WRITER_SLOTS_LATEST, bulkhead_pack(port->slots, pair));
    bulkhead_store_release(port, BULKHEAD_WORD_WRITER_WRITTEN, port->count);
    return BULKHEAD_OK;
}

/* Tells rubbish from an area that is being cleared by a restart at this moment. */
static inline int bulkhead_judge_source(const struct bulkhead_port *port) {
    uint32_t epoch;
    if (bulkhead_source_epoch(port, &epoch) == BULKHEAD_OK && epoch != port->epoch)
        return BULKHEAD_PEER_CLOSED;
    return BULKHEAD_PEER_CORRUPT;
}

/* Checks the source's head and adopts a new incarnation. */
static inline int bulkhead_follow_source(struct bulkhead_port *port) {
    uint32_t epoch;
    if (bulkhead_source_epoch(port, &epoch) != BULKHEAD_OK)
        return bulkhead_judge_source(port);
    if (epoch == 0)
        return BULKHEAD_PEER_CLOSED;
    if (epoch == port->epoch)
        return BULKHEAD_OK;
    int is_first = port->epoch == 0;
    port->epoch = epoch;
    port->count = 0;
    if (port->kind == BULKHEAD_PORT_QUEUING) {
        port->count = bulkhead_load(port, BULKHEAD_WORD_WRITER_ACKNOWLEDGED);
        bulkhead_store(port, BULKHEAD_WORD_READER_READ, port->count);
    }
    bulkhead_store_release(port, BULKHEAD_WORD_READER_PAIR_EPOCH, bulkhead_pack(0, epoch));
    return is_first ? BULKHEAD_OK : BULKHEAD_PEER_RESET;
}

/* Copies the newest value of a sampling destination port into `buffer`, which has room for a whole message. */
static inline int bulkhead_sampling_read(struct bulkhead_port *port, void *buffer, uint32_t capacity,
                                         struct bulkhead_message *message) {
    if (port->kind != BULKHEAD_PORT_SAMPLING)
        return BULKHEAD_BAD_PORT;
    if (capacity < port->message_bytes)
        return BULKHEAD_BAD_LENGTH;
    int result = bulkhead_follow_source(port);
    if (result != BULKHEAD_OK)
        return result;
    uint64_t least = bulkhead_load_acquire(port, BULKHEAD_WORD_WRITER_WRITTEN);
    if (least == 0)
        return BULKHEAD_EMPTY;
    uint32_t pair = bulkhead_high(bulkhead_load_acquire(port, BULKHEAD_WORD_WRITER_SLOTS_LATEST)) & 1;
    bulkhead_store_release(port, BULKHEAD_WORD_READER_PAIR_EPOCH, bulkhead_pack(pair, port->epoch));
    /* The announcement (store) is ordered before choosing the slot (load). */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint32_t slot = (bulkhead_low(bulkhead_load_acquire(port, BULKHEAD_WORD_WRITER_PAIRS_EPOCH)) >> pair) & 1;
    if (bulkhead_read_slot(port, (pair << 1) | slot, buffer, message) != BULKHEAD_OK || message->sequence < least ||
        message->sequence < port->count)
        return bulkhead_judge_source(port);
    message->is_new = message->sequence != port->count;
    port->count = message->sequence;
    return BULKHEAD_OK;
}

/* Sends a message on a queuing source port. Ring the doorbell afterwards. */
static inline int bulkhead_queuing_send(struct bulkhead_port *port, const void *payload, uint32_t bytes, uint64_t now_ticks) {
    int looked = BULKHEAD_OK;
    if (port->kind != BULKHEAD_PORT_QUEUING)
        return BULKHEAD_BAD_PORT;
    if (bytes == 0 || bytes > port->message_bytes)
        return BULKHEAD_BAD_LENGTH;
    if (bulkhead_destination_is_open(port) &&
        bulkhead_high(bulkhead_load_acquire(port, BULKHEAD_WORD_READER_PAIR_EPOCH)) == port->epoch) {
        uint64_t read = bulkhead_load_acquire(port, BULKHEAD_WORD_READER_READ);
        if (read < port->acknowledged || read > port->count) {
            looked = BULKHEAD_PEER_CORRUPT;
        } else if (read != port->acknowledged) {
            port->acknowledged = read;
            /* Before a freed slot is written, so that a destination that starts from this count looks at slots in use. */
            bulkhead_store_release(port, BULKHEAD_WORD_WRITER_ACKNOWLEDGED, read);
        }
    }
    if (port->count - port->acknowledged >= port->slots)
        return looked == BULKHEAD_OK ? BULKHEAD_FULL : looked;
    bulkhead_write_slot(port, (uint32_t)(port->count % port->slots), payload, bytes, port->count + 1, now_ticks);
    port->count++;
    bulkhead_store_release(port, BULKHEAD_WORD_WRITER_WRITTEN, port->count);
    return BULKHEAD_OK;
}

/* Takes the next message of a queuing destination port into `buffer`, which has room for a whole message. */
static inline int bulkhead_queuing_receive(struct bulkhead_port *port, void *buffer, uint32_t capacity,
                                           struct bulkhead_message *message) {
    if (port->kind != BULKHEAD_PORT_QUEUING)
        return BULKHEAD_BAD_PORT;
    if (capacity < port->message_bytes)
        return BULKHEAD_BAD_LENGTH;
    int result = bulkhead_follow_source(port);
    if (result != BULKHEAD_OK)
        return result;
    uint64_t written = bulkhead_load_acquire(port, BULKHEAD_WORD_WRITER_WRITTEN);
    if (written == port->count)
        return BULKHEAD_EMPTY;
    uint64_t next = port->count;
    if (bulkhead_counters_agree(port, port->count, written)) {
        next = port->count + 1;
        result = bulkhead_read_slot(port, (uint32_t)(port->count % port->slots), buffer, message);
        if (result == BULKHEAD_OK && message->sequence == next) {
            port->count = next;
            bulkhead_store_release(port, BULKHEAD_WORD_READER_READ, next);
            return BULKHEAD_OK;
        }
    }
    result = bulkhead_judge_source(port);
    if (result == BULKHEAD_PEER_CORRUPT) {
        /* Continues after the rubbish, or where the source knows that more was read. */
        uint64_t acknowledged = bulkhead_load(port, BULKHEAD_WORD_WRITER_ACKNOWLEDGED);
        written = bulkhead_load_acquire(port, BULKHEAD_WORD_WRITER_WRITTEN);
        if (acknowledged > port->count && bulkhead_counters_agree(port, acknowledged, written))
            next = acknowledged;
        port->count = next;
        bulkhead_store_release(port, BULKHEAD_WORD_READER_READ, next);
    }
    return result;
}

/* Finds a port by name; null when there is none. */
static inline const struct bulkhead_port_information *
bulkhead_find_port(const struct bulkhead_guest_information *information, const char *name) {
    for (uint32_t index = 0; index < information->port_count && index < BULKHEAD_MAX_PORTS; index++) {
        const char *candidate = information->ports[index].name;
        uint32_t at = 0;
        while (at < BULKHEAD_NAME_BYTES && candidate[at] == name[at] && name[at] != 0)
            at++;
        if (at < BULKHEAD_NAME_BYTES && candidate[at] == name[at])
            return &information->ports[index];
    }
    return NULL;
}

/* Writer of a console ring. Its own copies of capacity and count decide; the header is for readers. */
struct bulkhead_console {
    volatile uint64_t *words;
    uint64_t capacity;
    uint64_t written;
};

/* Opens the ring of `bytes` at `address`; a ring that already counts entries is continued. */
static inline int bulkhead_console_open(struct bulkhead_console *console, uint64_t address, uint64_t bytes) {
    if (address == 0 || bytes < BULKHEAD_CONSOLE_HEADER_BYTES + 8)
        return BULKHEAD_BAD_PORT;
    console->words = (volatile uint64_t *)(uintptr_t)address;
    console->capacity = (bytes - BULKHEAD_CONSOLE_HEADER_BYTES) / 8;
    console->written = 0;
    if (console->words[0] == BULKHEAD_CONSOLE_MAGIC && console->words[1] == console->capacity) {
        console->written = console->words[2];
    } else {
        console->words[2] = 0;
        console->words[1] = console->capacity;
        __atomic_store_n(&console->words[0], BULKHEAD_CONSOLE_MAGIC, __ATOMIC_RELEASE);
    }
    return BULKHEAD_OK;
}

/* Appends a byte; overwrites the oldest entry when the ring is full. */
static inline void bulkhead_console_write(struct bulkhead_console *console, uint8_t byte, uint64_t now_ticks) {
    uint64_t index = BULKHEAD_CONSOLE_HEADER_BYTES / 8 + console->written % console->capacity;
    console->words[index] = (now_ticks << 8) | byte;
    console->written++;
    __atomic_store_n(&console->words[2], console->written, __ATOMIC_RELEASE);
}

#if defined(__aarch64__)

/* The information page. Valid in a partition of kind `elf` or `raw`; check its magic when in doubt. */
static inline const struct bulkhead_guest_information *bulkhead_information(void) {
    return (const struct bulkhead_guest_information *)(uintptr_t)BULKHEAD_GUEST_INFORMATION;
}

/* The virtual counter, in ticks of bulkhead_guest_information.counter_hz. */
static inline uint64_t bulkhead_counter_ticks(void) {
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, CNTVCT_EL0" : "=r"(ticks));
    return ticks;
}

/* Makes a call; x1 to x3 of the answer go to `results` unless it is null. */
static inline uint64_t bulkhead_call(uint64_t function, uint64_t argument1, uint64_t argument2, uint64_t argument3,
                                     uint64_t results[3]) {
    register uint64_t x0 __asm__("x0") = function;
    register uint64_t x1 __asm__("x1") = argument1;
    register uint64_t x2 __asm__("x2") = argument2;
    register uint64_t x3 __asm__("x3") = argument3;
    __asm__ volatile("hvc #0"
                     : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3)
                     :
                     : "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "memory");
    if (results) {
        results[0] = x1;
        results[1] = x2;
        results[2] = x3;
    }
    return x0;
}

/* Rings the doorbell of a source port: BULKHEAD_SUCCESS, BULKHEAD_LIMITED, or not supported without a doorbell. */
static inline uint64_t bulkhead_ring(const struct bulkhead_port *port) {
    if (port->doorbell == BULKHEAD_NO_DOORBELL)
        return BULKHEAD_NOT_SUPPORTED;
    return bulkhead_call(BULKHEAD_CALL_DOORBELL, port->doorbell, 0, 0, NULL);
}

/* Tells an emulator, and nobody else, that this core spins. Belongs into each wait loop. */
static inline void bulkhead_yield(void) { __asm__ volatile("yield"); }

#endif /* __aarch64__ */

#endif /* BULKHEAD_H */
