/*
 * Bulkhead: the payload's ends of channels between the worlds. Nothing here waits; each function may be called by any task, one at a time for
 * each channel.
 */
#ifndef BULKHEAD_MESSAGES_H
#define BULKHEAD_MESSAGES_H

#include <stdint.h>

struct bulkhead_world_plan;

/* What is returned in place of a number that is not negative. */
enum bulkhead_messages_refusal {
    BULKHEAD_MESSAGES_NOTHING = -1, /* no message, or no free block */
    BULKHEAD_MESSAGES_BLOCK = -2,   /* the block or message is not the caller's */
    BULKHEAD_MESSAGES_LENGTH = -3,  /* more bytes than a block or the buffer takes */
    BULKHEAD_MESSAGES_CORRUPT = -4, /* the other world wrote nonsense; a bad message was dropped */
    BULKHEAD_MESSAGES_CLOSED = -5,  /* no such channel in this direction, or the other world is not loaded */
    BULKHEAD_MESSAGES_BUSY = -6     /* another task is in the middle of a call */
};

/* Most channels: sets of them are the low bits of a word. */
#define BULKHEAD_MESSAGES_CHANNELS 8

/* The number of a channel by its name. */
int64_t bulkhead_messages_find(const struct bulkhead_world_plan *plan, const char *name);

/* Ticks of the kernel between two looks for messages; 0: the other world calls. */
uint32_t bulkhead_messages_poll(const struct bulkhead_world_plan *plan, uint32_t channel);

/* Of the loader of the other world: all channels are closed, and opened again with new ends over memory that is filled with zeros. Closing fails
   while somebody is in the middle of a call, who has to be let go on. */
_Bool bulkhead_messages_close(void);
void bulkhead_messages_open(const struct bulkhead_world_plan *plan);

/* To the other world. A block is allocated, written from its beginning, and enqueued with a tag or freed; or all at once. */
int64_t bulkhead_messages_allocate(uint32_t channel);
int64_t bulkhead_messages_write(uint32_t channel, uint32_t block, const void *bytes, uint32_t length);
int64_t bulkhead_messages_enqueue(uint32_t channel, uint32_t block, uint32_t length, uint32_t tag);
int64_t bulkhead_messages_free(uint32_t channel, uint32_t block);
int64_t bulkhead_messages_send(uint32_t channel, const void *bytes, uint32_t length, uint32_t tag);

/* From the other world. A message is dequeued, read and done, or all at once; what is returned are its bytes. One message is held at a time.
   Messages that the filter does not accept (tag & mask == value & mask) are freed; a start of the other world accepts all again. */
int64_t bulkhead_messages_dequeue(uint32_t channel, uint32_t *tag);
int64_t bulkhead_messages_read(uint32_t channel, void *buffer, uint32_t size);
int64_t bulkhead_messages_done(uint32_t channel);
int64_t bulkhead_messages_receive(uint32_t channel, void *buffer, uint32_t size, uint32_t *tag);
int64_t bulkhead_messages_filter(uint32_t channel, uint32_t mask, uint32_t value);

/* 1 when there is something to dequeue. */
int64_t bulkhead_messages_look(uint32_t channel);

/* Events, with interrupts masked. A channel of a group was rung: whether that is the first event of the group since they were taken, so that
   somebody has to be woken. And the channels of a group that were rung since. */
_Bool bulkhead_messages_ring(uint32_t channel, uint32_t group);
uint32_t bulkhead_messages_take(uint32_t group);

#endif
