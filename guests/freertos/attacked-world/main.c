/*
 * Payload of the tests with a hostile world: starts that world again for each of its attacks, and says after each what the payload noticed:
 * how late its ticks came, whether a victim task came to its result, whether a register or an interrupt of the payload changed.
 *
 * An application of its own, so that the one of `systems/dual-world` carries nothing of this. It runs the other world by itself and not by
 * `world.c`, because it fills its registers before each entry and compares them afterwards. Argument: `samples=N` ticks in the other world for
 * each attack (default: 100).
 */
#include "board.h"
#include "world.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS         512U
#define FAST_PRIORITY       12
#define JUDGE_PRIORITY      11
#define VICTIM_PRIORITY     10
#define WORLD_PRIORITY      1

/* Samples of the tick in the other world that an attack gets, unless the arguments say more; then ticks in which all registers are compared; and
   the most ticks of an attack with that number of samples, unless it asks for more. */
#define SAMPLES             100U
#define COMPARED_TICKS      20U
#define MOST_TICKS(samples) ((samples) * 16 / 10)
/* The most that an attack may ask for. */
#define MOST_ASKED_TICKS    20000U
#define VICTIM_ROUNDS       8U
#define VICTIM_TICKS        10U

/* Calls of the hostile world to its test: how many attacks it has; how many ticks the attack needs. */
#define CALL_ATTACKS        0x83000001U
#define CALL_TICKS          0x83000002U

/* The seed of random attacks is the argument of the world in the flash file; its upper 16 bits may name an attack to be tried alone. */
#define ATTACK_ALONE(seed)  ((seed) >> 48)

#define CONTEXT             ((volatile uint64_t *)0x0e000000UL)

/* How late ticks were; the last place counts what is later than all others. */
#define LATEST              512U
static volatile uint32_t late[BOARD_INTERRUPTED][LATEST + 1];

static const struct bulkhead_world_plan *plan;
static volatile uint64_t wanted, started, attacks, ticks_of_attack, most_ticks, calls;
static uint64_t wanted_samples = SAMPLES;
static volatile _Bool is_off, compares_all;
static volatile uint64_t victim_result, seed;
static const char *volatile changed;

/* What attacks look for and try to change. */
#define CANARY_WORDS        512U
static volatile uint64_t canary[CANARY_WORDS] __attribute__((aligned(4096)));

/* --- registers ------------------------------------------------------------------------------------------------------------------ */

/* Registers of EL1 that the payload has no use for, with what they hold while the other world runs. */
#define PLANTED(X) \
    X(TPIDR_EL0, 0x5ec0de0000000001) X(TPIDRRO_EL0, 0x5ec0de0000000002) X(TPIDR_EL1, 0x5ec0de0000000003) X(CONTEXTIDR_EL1, 0x5ec0de04) \
    X(TTBR1_EL1, 0x00005ec0de050000) X(FAR_EL1, 0x5ec0de0000000006) X(PAR_EL1, 0x5ec0de000801) X(CNTKCTL_EL1, 0x52) \
    X(MDSCR_EL1, 0x1000) X(CSSELR_EL1, 2)
/* Those that exceptions of the payload change: planted while it has its interrupts masked. */
#define PLANTED_MASKED(X) X(ESR_EL1, 0x5ec0de07) X(ELR_EL1, 0x5ec0de0000000008) X(SPSR_EL1, 0x600003c5)
/* Those that it needs as they are. */
#define WATCHED(X) \
    X(VBAR_EL1) X(SCTLR_EL1) X(CPACR_EL1) X(TTBR0_EL1) X(TCR_EL1) X(MAIR_EL1) X(S3_0_C4_C6_0) X(S3_0_C12_C12_7) X(S3_0_C12_C12_3) \
    X(S3_0_C12_C12_4) X(S3_0_C12_C9_0) X(S3_7_C14_C2_1) X(CNTFRQ_EL0) X(MPIDR_EL1)

#define READ(register) ({ uint64_t value; __asm__ volatile("mrs %0, " #register : "=r"(value)); value; })
#define PLANT(register, value) __asm__ volatile("msr " #register ", %0" : : "r"((uint64_t)(value)));
#define COMPARE(register, value) if (READ(register) != (uint64_t)(value)) changed = #register;
#define COUNT(register) +1
#define NOTE(register) *place++ = READ(register);
#define COMPARE_NOTED(register) if (READ(register) != *place++) changed = #register;

static uint64_t noted[0 WATCHED(COUNT)];

/* Fills x19 to x29, enters the other world, and returns why it came back; what differs afterwards is in the other word. By the library, or,
   with NULL, by a call of its own, so that interrupts stay masked. */
struct entered { uint64_t reason, differs; };
struct entered enter_filled(const volatile uint32_t *ready, uint32_t bit);

__asm__(
    "    .text\n"
    "enter_filled:\n"
    "    stp x29, x30, [sp, #-96]!\n"
    "    stp x19, x20, [sp, #16]\n"
    "    stp x21, x22, [sp, #32]\n"
    "    stp x23, x24, [sp, #48]\n"
    "    stp x25, x26, [sp, #64]\n"
    "    stp x27, x28, [sp, #80]\n"
    "    ldr x19, =0x5ec0de00ec0de019\n"
    "    .irp one, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29\n"
    "    add x\\one, x19, #\\one\n"
    "    .endr\n"
    "    cbz x0, 1f\n"
    "    bl bulkhead_world_enter\n"
    "    b 2f\n"
    "1:  smc #0\n"
    "2:\n"
    "    ldr x2, =0x5ec0de00ec0de019\n"
    "    eor x1, x2, x19\n"
    "    .irp one, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29\n"
    "    add x3, x2, #\\one\n"
    "    eor x3, x3, x\\one\n"
    "    orr x1, x1, x3\n"
    "    .endr\n"
    "    ldp x19, x20, [sp, #16]\n"
    "    ldp x21, x22, [sp, #32]\n"
    "    ldp x23, x24, [sp, #48]\n"
    "    ldp x25, x26, [sp, #64]\n"
    "    ldp x27, x28, [sp, #80]\n"
    "    ldp x29, x30, [sp], #96\n"
    "    ret\n"
    "    .ltorg\n");

/* The answer to a call that the library did not see: the payload compares registers then, and has all refused. */
#define REFUSED     UINT64_MAX

static uint64_t enter(void)
{
    static const volatile uint32_t ready = 1;
    _Bool masked = compares_all;
    struct entered entered;

    PLANTED(PLANT)
    if (masked) {
        __asm__ volatile("msr DAIFSET, #2");
        PLANTED_MASKED(PLANT)
    }
    entered = enter_filled(masked ? NULL : &ready, 1);
    if (masked) {
        PLANTED_MASKED(COMPARE)
        __asm__ volatile("msr DAIFCLR, #2");
    }
    PLANTED(COMPARE)
    uint64_t *place = noted;
    WATCHED(COMPARE_NOTED)
    if (entered.differs != 0)
        changed = "x19 to x29";
    if (masked && entered.reason == BULKHEAD_WORLD_CALL) {
        CONTEXT[0] = REFUSED;
        return BULKHEAD_WORLD_NOT_NOW;
    }
    return entered.reason;
}

/* --- interrupt controller ------------------------------------------------------------------------------------------------------- */

#define DISTRIBUTOR     0x08000000UL
#define REDISTRIBUTOR   0x080a0000UL
#define SGI_FRAME       0x080b0000UL
#define SECURE_PRIVATE  (1U << 29 | 1U << 9)    /* the tick, and SGI 9, which brings events */
#define SECURE_SHARED   (1U << 8)       /* of INTIDs 32 to 63: the secure console, 40 */

static uint32_t read32(uintptr_t address) { return *(volatile uint32_t *)address; }
static void write32(uintptr_t address, uint32_t value) { *(volatile uint32_t *)address = value; }

/* All that the interrupts of the payload depend on: a register, and which of its bits. */
static const struct { uintptr_t address; uint32_t bits; } settings[] = {
    { DISTRIBUTOR, ~(1U << 1 | 1U << 31) }, /* but EnableGrp1NS, which is the other world's, and writes under way */
    { SGI_FRAME + 0x080, SECURE_PRIVATE }, { SGI_FRAME + 0xd00, SECURE_PRIVATE }, { SGI_FRAME + 0x100, SECURE_PRIVATE },
    { SGI_FRAME + 0x300, SECURE_PRIVATE }, { SGI_FRAME + 0x41c, 0x0000ff00 }, { SGI_FRAME + 0x408, 0x0000ff00 },
    { SGI_FRAME + 0x200, 1U << 9 }, { SGI_FRAME + 0xc04, 0x0c000000 },
    { SGI_FRAME + 0xe00, ~0U }, { SGI_FRAME + 0xe04, ~0U },
    { DISTRIBUTOR + 0x084, SECURE_SHARED }, { DISTRIBUTOR + 0xd04, SECURE_SHARED }, { DISTRIBUTOR + 0x104, SECURE_SHARED },
    { DISTRIBUTOR + 0x204, SECURE_SHARED }, { DISTRIBUTOR + 0x304, SECURE_SHARED }, { DISTRIBUTOR + 0x428, 0x000000ff },
    { DISTRIBUTOR + 0xc08, 0x00030000 }, { DISTRIBUTOR + 0xe08, ~0U }, { DISTRIBUTOR + 0xe0c, ~0U },
    { DISTRIBUTOR + 0x6140, ~0U }, { DISTRIBUTOR + 0x6144, ~0U },
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))
static uint32_t set[SETTINGS];

static uint32_t setting(unsigned index) { return read32(settings[index].address) & settings[index].bits; }

/* Interrupts of the other world: off, neither pending nor active, as when it began first. Its timers off. */
static void forget_interrupts_of_other_world(void)
{
    static const uint16_t registers[] = { 0x180, 0x280, 0x380 };
    uint32_t words = (read32(DISTRIBUTOR + 4) & 31) + 1;

    for (unsigned one = 0; one < 3; one++) {
        write32(SGI_FRAME + registers[one], ~SECURE_PRIVATE);
        for (uint32_t word = 1; word < words; word++)
            write32(DISTRIBUTOR + registers[one] + 4 * word, word == 1 ? ~SECURE_SHARED : ~0U);
    }
    PLANT(CNTP_CTL_EL0, 0)
    PLANT(CNTV_CTL_EL0, 0)
}

/* --- tasks ---------------------------------------------------------------------------------------------------------------------- */

static uint64_t fast_rounds;

/* Of each tick: how late its vector was entered, by what it interrupted. The comparator already holds the next tick. */
static void sample(void)
{
    static uint64_t before;
    uint64_t in_other_world = board_tick_lateness(BOARD_OTHER_WORLD)->ticks;
    uint64_t by = board_vector_counter - (READ(S3_7_C14_C2_2) - READ(CNTFRQ_EL0) / configTICK_RATE_HZ);

    if (!compares_all)
        late[in_other_world != before ? BOARD_OTHER_WORLD : BOARD_PAYLOAD][by < LATEST ? by : LATEST]++;
    before = in_other_world;
    ticks_of_attack++;
}

static void fast(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, 1);
        fast_rounds++;
        sample();
    }
}

static void victim(void *unused)
{
    (void)unused;
    for (uint64_t seen = 0;;) {
        vTaskDelay(1);
        if (started == seen)
            continue;
        seen = started;
        uint64_t hash = 0xcbf29ce484222325;
        for (unsigned round = 0; round < VICTIM_ROUNDS; round++) {
            vTaskDelay(VICTIM_TICKS);
            for (unsigned word = 0; word < CANARY_WORDS; word++)
                hash = (hash ^ canary[word]) * 0x100000001b3;
        }
        victim_result = hash;
    }
}

static uint64_t random_word(uint64_t index)
{
    uint64_t word = (index + 1) * 0x9e3779b97f4a7c15;

    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
    return word ^ word >> 31;
}

/* Makes the other world begin with the attack of this number; 0 asks it how many it has. */
static void begin(uint64_t attack)
{
    struct bulkhead_world_loading loading = { 0, 0, 0, 0 };
    uint64_t step;

    do
        step = bulkhead_world_load(plan, &loading);
    while (step == BULKHEAD_WORLD_MORE);
    configASSERT(step == BULKHEAD_WORLD_DONE);
    forget_interrupts_of_other_world();
    portENTER_CRITICAL();
    bulkhead_world_forget_call();
    portEXIT_CRITICAL();
    bulkhead_world_reset(plan);
    seed = CONTEXT[0];
    CONTEXT[0] = attack;
    CONTEXT[1] = (uintptr_t)canary;
    CONTEXT[2] = (uintptr_t)enter_filled;
    CONTEXT[3] = seed;
    /* Nobody counts now; with interrupts open, for it takes long. */
    compares_all = 1;
    for (unsigned kind = 0; kind < BOARD_INTERRUPTED; kind++)
        for (unsigned place = 0; place <= LATEST; place++)
            late[kind][place] = 0;
    portENTER_CRITICAL();
    calls = ticks_of_attack = 0;
    most_ticks = MOST_TICKS(wanted_samples);
    changed = NULL;
    victim_result = 0;
    is_off = compares_all = 0;
    started = attack + 1;
    wanted = 0;
    portEXIT_CRITICAL();
}

static void serve(void *unused)
{
    uint64_t *place = noted, words[2];

    (void)unused;
    WATCHED(NOTE)
    for (;;) {
        if (wanted != 0)
            begin(wanted - 1);
        if (is_off) {
            vTaskDelay(1);
            continue;
        }
        if (enter() != BULKHEAD_WORLD_CALL)
            continue;
        calls++;
        if (CONTEXT[0] == CALL_ATTACKS)
            attacks = CONTEXT[1];
        if (CONTEXT[0] == CALL_TICKS && CONTEXT[1] <= MOST_ASKED_TICKS)
            most_ticks = CONTEXT[1];
        switch (bulkhead_world_answer(plan, words)) {
        case BULKHEAD_WORLD_OFF:
        case BULKHEAD_WORLD_RESET:
            is_off = 1;
            break;
        default:
            break;
        }
    }
}

static void print_late(const char *what, enum board_interrupted interrupted)
{
    board_print(what);
    for (unsigned place = 0; place <= LATEST; place++) {
        if (late[interrupted][place] != 0) {
            board_print(" ");
            board_print_number(place);
            board_print("*");
            board_print_number(late[interrupted][place]);
        }
    }
}

static void print_number(const char *what, uint64_t number)
{
    board_print(what);
    board_print_number(number);
}

/* attack 7: ticks 121; late in the payload: 2*3; in the other world: 112*100; calls 0; victim 123; off 0; changed nothing */
static void report(uint64_t attack)
{
    print_number("attack ", attack);
    print_number(": ticks ", ticks_of_attack);
    print_late("; late in the payload:", BOARD_PAYLOAD);
    print_late("; in the other world:", BOARD_OTHER_WORLD);
    print_number("; calls ", calls);
    print_number("; victim ", victim_result);
    print_number("; off ", is_off);
    board_print("; changed ");
    board_print(changed != NULL ? changed : "nothing");
    for (unsigned index = 0; index < SETTINGS; index++)
        if (setting(index) != set[index])
            print_number(" setting ", settings[index].address);
    for (unsigned word = 0; word < CANARY_WORDS; word++)
        if (canary[word] != random_word(word))
            print_number(" word ", word);
    board_print("\n");
}

static uint64_t samples(void)
{
    uint64_t sum = 0;

    for (unsigned place = 0; place <= LATEST; place++)
        sum += late[BOARD_OTHER_WORLD][place];
    return sum;
}

static void attack_with(uint64_t attack)
{
    wanted = attack + 1;
    while (started != attack + 1)
        vTaskDelay(1);
    while (ticks_of_attack < most_ticks && (samples() < wanted_samples || most_ticks != MOST_TICKS(wanted_samples)))
        vTaskDelay(1);
    compares_all = 1;
    vTaskDelay(COMPARED_TICKS);
    if (attack != 0)
        report(attack);
}

static void judge(void *unused)
{
    TickType_t tick;

    (void)unused;
    attack_with(0);
    configASSERT(attacks != 0);
    for (uint64_t attack = 1; attack <= attacks; attack++)
        if (ATTACK_ALONE(seed) == 0 || attack == ATTACK_ALONE(seed))
            attack_with(attack);
    tick = xTaskGetTickCount();
    configASSERT(fast_rounds == tick || fast_rounds + 1 == tick);
    print_number("attacks ", attacks);
    print_number("; ticks ", tick);
    print_number("; fast ", fast_rounds);
    print_number("; latest ", board_tick_lateness(BOARD_OTHER_WORLD)->most);
    board_print("\nend\n");
    board_power_off();
}

/* What `world.c` asks of an application that runs the other world by it. */
void world_is_off(void) {}
_Bool world_wants_reset(void) { return 0; }
void world_is_damaged(void) {}

static void read_arguments(const char *text)
{
    static const char key[] = "samples=";

    for (unsigned place = 0; key[place] != '\0'; place++)
        if (*text++ != key[place])
            return;
    for (wanted_samples = 0; *text >= '0' && *text <= '9'; text++)
        wanted_samples = wanted_samples * 10 + (uint64_t)(*text - '0');
}

void payload_main(const struct bulkhead_world_plan *given)
{
    plan = given;
    read_arguments(bulkhead_world_arguments(plan));
    board_initialise(plan);
    write32(DISTRIBUTOR + 0x104, SECURE_SHARED);
    for (unsigned index = 0; index < SETTINGS; index++)
        set[index] = setting(index);
    for (unsigned word = 0; word < CANARY_WORDS; word++)
        canary[word] = random_word(word);
    configASSERT(xTaskCreate(fast, "fast", STACK_WORDS, NULL, FAST_PRIORITY, NULL) == pdPASS);
    configASSERT(xTaskCreate(judge, "judge", STACK_WORDS, NULL, JUDGE_PRIORITY, NULL) == pdPASS);
    configASSERT(xTaskCreate(victim, "victim", STACK_WORDS, NULL, VICTIM_PRIORITY, NULL) == pdPASS);
    configASSERT(xTaskCreate(serve, "world", STACK_WORDS, NULL, WORLD_PRIORITY, NULL) == pdPASS);
    vTaskStartScheduler();
    configASSERT(!"the scheduler returned");
}
