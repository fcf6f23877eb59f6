/*
 * Bulkhead: what a payload of the secure world calls and finds. The library behind it is libbulkhead_world_library.a.
 */
#ifndef BULKHEAD_WORLD_H
#define BULKHEAD_WORLD_H

/* Offset of the translation table of the payload in the plan. */
#define BULKHEAD_WORLD_PLAN_TABLES 48

#ifndef __ASSEMBLER__
#include <stdint.h>

/* The world plan, which the host made and EL3 checked: x0 of the payload's first instruction. */
struct bulkhead_world_plan;

/* Gives each interrupt to its world. Once, before anything else, with interrupts masked. */
void bulkhead_world_start(const struct bulkhead_world_plan *plan);

/* There is a world besides the payload. */
_Bool bulkhead_world_has_other(const struct bulkhead_world_plan *plan);

/* The payload's arguments. */
const char *bulkhead_world_arguments(const struct bulkhead_world_plan *plan);

/* Before its memory is made new, and behind bulkhead_world_hand_back: brings to rest the non-secure world's interrupts, 32 for each step from 0
   on, and its timers. Returns whether there is more to do. With interrupts open, as all of a start. */
_Bool bulkhead_world_rest(const struct bulkhead_world_plan *plan, uint32_t step);

/* Where the work of a start has come to; zeros to begin with. */
struct bulkhead_world_loading {
    uint64_t phase;
    uint64_t segment;
    uint64_t offset;
    uint64_t crc;
};

enum bulkhead_world_step {
    BULKHEAD_WORLD_MORE,
    BULKHEAD_WORLD_DONE,
    BULKHEAD_WORLD_DAMAGED /* a segment is not what was built */
};

/* Does the next 4 KiB of a start of the non-secure world: fills its memory with zeros, copies its segments out of flash, reads them again.
   An enum bulkhead_world_step. */
uint64_t bulkhead_world_load(const struct bulkhead_world_plan *plan, struct bulkhead_world_loading *loading);

/* Forgets the call that waits. With interrupts masked, before bulkhead_world_reset. */
void bulkhead_world_forget_call(void);

/* Makes the non-secure world begin at its first instruction when it runs next. */
void bulkhead_world_reset(const struct bulkhead_world_plan *plan);

/* A task that runs the non-secure world: a line of the plan. */
struct bulkhead_world_server {
    uint32_t kind;     /* an enum bulkhead_world_kind */
    uint32_t priority; /* higher is more urgent */
    uint64_t budget;   /* ticks of the counter in each period, 0: no limit */
    uint32_t period;   /* ticks of the kernel */
    uint32_t voluntary;
};

enum bulkhead_world_kind {
    BULKHEAD_WORLD_NONE,
    BULKHEAD_WORLD_INTERRUPT_TASK, /* from an urgent interrupt to the end of its activation */
    BULKHEAD_WORLD_RESERVED_TASK,  /* as long as it has budget */
    BULKHEAD_WORLD_BACKGROUND_TASK,
    BULKHEAD_WORLD_LATENCY_TASK,
    BULKHEAD_WORLD_WINDOW_TASK /* while one of its windows is open */
};

#define BULKHEAD_WORLD_SERVERS 5

/* Takes the servers from the plan; returns how many there are. */
uint64_t bulkhead_world_servers(const struct bulkhead_world_plan *plan);
struct bulkhead_world_server bulkhead_world_server(const struct bulkhead_world_plan *plan, uint64_t place);

/* What happened to a server, or to the other world. */
enum bulkhead_world_what {
    BULKHEAD_WORLD_NO_EVENT,
    BULKHEAD_WORLD_FIRED,   /* an urgent interrupt of the server arrived */
    BULKHEAD_WORLD_YIELDED, /* the world has nothing urgent left; `wanted` is the latency task that it wants */
    BULKHEAD_WORLD_USED_UP,
    BULKHEAD_WORLD_FILLED,
    BULKHEAD_WORLD_MAY_RUN, /* the world: it is loaded, or resumed */
    BULKHEAD_WORLD_MUST_NOT_RUN,
    BULKHEAD_WORLD_SERVERS_ON,
    BULKHEAD_WORLD_SERVERS_OFF,
    BULKHEAD_WORLD_WISHES /* the world has written another wish */
};

struct bulkhead_world_happened {
    uint32_t what; /* an enum bulkhead_world_what */
    uint32_t server;
    uint64_t wanted;
};

/* Notes what happened. Returns which servers may run now that could not before, a bit for each. With interrupts masked. */
uint64_t bulkhead_world_happened(struct bulkhead_world_happened event);

/* How many records of who runs the payload keeps until they are written to the secure console; 0: none. */
uint64_t bulkhead_world_trace_records(const struct bulkhead_world_plan *plan);

/* The bytes of a record on the secure console. */
#define BULKHEAD_WORLD_FRAME_BYTES 28
void bulkhead_world_frame(uint8_t kind, uint64_t counter, uint64_t argument, uint8_t (*frame)[BULKHEAD_WORLD_FRAME_BYTES]);

/* A bit for each server that may run: what bulkhead_world_enter looks at. */
extern const volatile uint32_t BULKHEAD_WORLD_READY;

/* Urgent interrupts of the other world. All with interrupts masked. */

/* Takes them from the plan: they are the other world's. */
void bulkhead_world_urgent(const struct bulkhead_world_plan *plan);

/* No server runs any more: they are the payload's. Returns the servers, a bit for each, in whose interrupts' handlers the other world
   stands; with this bit when the world has written another wish. */
#define BULKHEAD_WORLD_WISH_CHANGED (UINT64_C(1) << 31)
uint64_t bulkhead_world_arm(void);

/* An interrupt arrived, which may start a server. Returns which servers may run now that could not before, a bit for each, or
   BULKHEAD_WORLD_NOT_URGENT. */
#define BULKHEAD_WORLD_NOT_URGENT UINT64_MAX
uint64_t bulkhead_world_interrupt(uint32_t intid);

/* A server is going to run: they are the other world's. False while the payload still handles one. */
_Bool bulkhead_world_hand_back(void);

/* The software-generated interrupt of the library. */
#define BULKHEAD_WORLD_EVENT 9

/* Why the core came back from the non-secure world. */
#define BULKHEAD_WORLD_INTERRUPT 0
#define BULKHEAD_WORLD_CALL 1
#define BULKHEAD_WORLD_NOT_NOW 2 /* it was not given away */

/* Gives the core to the non-secure world if the word has this bit and no call waits for its answer; returns why it came back. */
uint64_t bulkhead_world_enter(const volatile uint32_t *ready, uint32_t bit);

/* Where an interrupt finds the core that came back for it: its return address then. */
extern const char bulkhead_world_returned[];

/* What the payload has to do about a call, besides the answer that its caller gets. */
enum bulkhead_world_asked {
    BULKHEAD_WORLD_NOTHING,
    BULKHEAD_WORLD_HEARTBEAT, /* the other world says that it is well */
    BULKHEAD_WORLD_YIELD,     /* it has nothing urgent left; two words of its own */
    BULKHEAD_WORLD_OFF,
    BULKHEAD_WORLD_RESET,
    BULKHEAD_WORLD_DOORBELL   /* the first word is the channel */
};

/* Answers the call that waits; an enum bulkhead_world_asked. Nothing is left to do when another server has answered meanwhile. */
uint64_t bulkhead_world_answer(const struct bulkhead_world_plan *plan, uint64_t words[2]);

/* Cores beside the payload's. */

/* The PSCI function, SYSTEM_OFF or SYSTEM_RESET, by which the world of a core ended; 0: it has not, or it was let begin again. The library's own
   interrupt arrives then, and nobody can start the core before the payload lets it begin again. */
uint64_t bulkhead_world_ended(const struct bulkhead_world_plan *plan, uint32_t core);
_Bool bulkhead_world_begin(const struct bulkhead_world_plan *plan, uint32_t core, uint64_t entry, uint64_t argument);

/* Health of the non-secure world. All with interrupts masked but `bulkhead_health_look`. */
enum bulkhead_health_event {
    BULKHEAD_HEALTH_BEAT = 1,    /* a sign of life */
    BULKHEAD_HEALTH_OFF,         /* the world called SYSTEM_OFF */
    BULKHEAD_HEALTH_RESET,       /* it called SYSTEM_RESET */
    BULKHEAD_HEALTH_FAULT,       /* somebody reports a fault, of a reason */
    BULKHEAD_HEALTH_SUSPEND,     /* a task of the payload suspends it, */
    BULKHEAD_HEALTH_RESUME,      /* lets it go on, */
    BULKHEAD_HEALTH_START_AGAIN, /* restarts it */
    BULKHEAD_HEALTH_STARTED,     /* the restart that was ordered is done */
    BULKHEAD_HEALTH_DAMAGED      /* its image is damaged */
};

/* What to do. */
enum bulkhead_health_order {
    BULKHEAD_HEALTH_NOTHING,
    BULKHEAD_HEALTH_STAND,   /* no server may run the world */
    BULKHEAD_HEALTH_RUN,     /* servers may run it */
    BULKHEAD_HEALTH_RESTART, /* none may, and it is started again, from the first step */
    BULKHEAD_HEALTH_HALT     /* none may, and the machine is switched off */
};

/* How the world is: state and reason by the numbers that partitions have for them. */
struct bulkhead_health {
    uint32_t state;
    uint32_t reason;
    uint32_t restarts;
    uint32_t faults;
};

/* What is seen of the world without its help. */
struct bulkhead_health_sample {
    uint64_t program_counter;
    uint64_t calls; /* so far, without its signs of life */
    uint64_t waiting;
};

/* Takes from the plan how the world is watched; returns whether the description says anything about it. Its first start is under way. */
_Bool bulkhead_health_start(const struct bulkhead_world_plan *plan);

/* Looks where the world stands. The caller fills in the calls. */
void bulkhead_health_look(const struct bulkhead_world_plan *plan, struct bulkhead_health_sample *sample);

/* These return an order. */
uint64_t bulkhead_health_happened(uint32_t what, uint32_t reason, uint64_t now);
uint64_t bulkhead_health_sampled(const struct bulkhead_health_sample *sample, uint64_t now);
uint64_t bulkhead_health_elapsed(uint64_t now);

/* When `bulkhead_health_elapsed` has something to say; BULKHEAD_TIME_NOTHING if never. */
uint64_t bulkhead_health_next(void);

struct bulkhead_health bulkhead_health_state(void);

/* How a partition below is, as the monitor at EL2 says: state and reason by the numbers that partitions have for them. */
struct bulkhead_partition {
    uint32_t state;
    uint32_t reason;
    uint64_t starts;
    uint64_t faults;
    uint64_t address; /* of the latest fault, where it was an access: as its guest sees it */
    uint64_t program_counter;
};

#define BULKHEAD_WORLD_PARTITIONS 8

/* Reads it; false when there is no partition of this number. */
_Bool bulkhead_partition_look(const struct bulkhead_world_plan *plan, uint32_t partition, struct bulkhead_partition *found);

/* Allowances of the payload's tasks, for the overrun handlers of a kernel. Tasks are numbers below 16, the first five the servers of the
   world plan. Times are ticks of the counter. All of these with interrupts masked. */
/* No task, no event, no instant. */
#define BULKHEAD_TIME_NOTHING UINT64_MAX

/* From now on this task runs, or none that has a number. Returns when the timer is to ring for an allowance. */
uint64_t bulkhead_time_switch(uint64_t task, uint64_t now);
uint64_t bulkhead_time_next(uint64_t now);

/* Gives a task this much once, or in every period from `start` on. */
_Bool bulkhead_time_start(uint64_t task, uint64_t ticks, uint64_t now);
_Bool bulkhead_time_open(uint64_t task, uint64_t budget, uint64_t period, uint64_t start, uint64_t now);

/* Takes an allowance, or tells what is left of it. */
uint64_t bulkhead_time_stop(uint64_t task, uint64_t now);
uint64_t bulkhead_time_remaining(uint64_t task, uint64_t now);

/* Windows of the world plan. All with interrupts masked. */

/* Takes the table from the plan; its first round begins at `origin`. Returns how many windows there are; UINT64_MAX, and there is none, when the
   table makes no sense: its servers would never run. */
uint64_t bulkhead_windows_start(const struct bulkhead_world_plan *plan, uint64_t origin);

/* The timer has rung. Returns which servers may run now that could not before, a bit for each. */
uint64_t bulkhead_windows_event(uint64_t now);

/* What a window has suffered, in the rounds in all of which the other world could run: ticks of the counter. */
struct bulkhead_window {
    uint64_t rounds;
    uint64_t latest_start; /* from its start on the grid until its server ran */
    uint64_t most_lost;    /* of its length */
};
struct bulkhead_window bulkhead_windows_record(uint64_t place);

/* What happened next until now: the task whose allowance is used up; with bit 32, the one whose account has something again. */
uint64_t bulkhead_time_event(uint64_t now);
#endif

#endif
