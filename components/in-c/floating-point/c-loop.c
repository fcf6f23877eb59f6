/*
 * The loop of components/pid in C: a controller and what it controls, with floating point. After each step it calls a component in Rust that leaves a pattern in all
 * registers, and it does the same to who calls it. build.sh --floating-point builds it, and its description says `floating_point = true`.
 */
#include "bulkhead_component.h"

BULKHEAD_ENTRY(run)

/* components/filter: leaves a pattern in all registers, and answers how many of them held something when it was entered. */
BULKHEAD_IMPORT(plant, pattern)

#define PERIOD_SECONDS 0.01

/* v0 to v31 by halves, FPCR, FPSR. */
static uint64_t found[66];

/* SplitMix64's last step, as bulkhead_component::mixed. */
static uint64_t mixed(uint64_t word, uint64_t with) {
    word += with * UINT64_C(0x9e3779b97f4a7c15);
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

static uint64_t bits_of(double value) {
    union {
        double value;
        uint64_t bits;
    } both = {value};
    return both.bits;
}

static void say(const char *what, uint64_t number) {
    bulkhead_print(what);
    bulkhead_print_number(number);
    bulkhead_print("\n");
}

/* The lowest byte of the argument is where the loop is to get, in kelvin; how many steps it makes is above. */
static void run(uint64_t argument) {
    double target = (double)(argument & 0xff), temperature = 0, measured = 0, sum = 0, before = 0;
    uint64_t word = 0, seen = 0, refused = 0;
    for (uint64_t step = 0; step < argument >> 8; step++) {
        double error = target - measured;
        sum += error * PERIOD_SECONDS;
        double change = (error - before) / PERIOD_SECONDS;
        before = error;
        double power = 2.25 * error + 0.75 * sum + 0.015625 * change;
        temperature += (power - 0.3 * temperature) * PERIOD_SECONDS;
        measured += (temperature - measured) / 8.0;
        word = mixed(mixed(word, bits_of(temperature)), bits_of(measured));
        /* What the compiler has in registers is kept on the stack meanwhile, v8 to v15 among them. */
        struct bulkhead_answer answer = plant(UINT64_C(0x0c0c000000000001) | step << 8);
        seen += answer.value;
        refused += answer.code != BULKHEAD_OK;
    }
    say("in C: ", word);
    say("in C, callee found: ", seen);
    say("in C, refused: ", refused);
}

#define PAIR(first, second, offset) "stp q" #first ", q" #second ", [%0, #" #offset "]\n\t"
#define PLANT(number) "dup v" #number ".2d, %1\n\t"

/* The same for who calls it: what its registers held at the entry, and a pattern in all of them, with each rounding mode and flag of FPCR and FPSR. */
BULKHEAD_EXPORT(plant_all, token, pattern) {
    uint64_t control, status, count = 0;
    __asm__ volatile(PAIR(0, 1, 0) PAIR(2, 3, 32) PAIR(4, 5, 64) PAIR(6, 7, 96)
                     PAIR(8, 9, 128) PAIR(10, 11, 160) PAIR(12, 13, 192) PAIR(14, 15, 224)
                     PAIR(16, 17, 256) PAIR(18, 19, 288) PAIR(20, 21, 320) PAIR(22, 23, 352)
                     PAIR(24, 25, 384) PAIR(26, 27, 416) PAIR(28, 29, 448) PAIR(30, 31, 480)
                     :
                     : "r"(found)
                     : "memory");
    __asm__ volatile("mrs %0, FPCR\n\tmrs %1, FPSR" : "=r"(control), "=r"(status));
    found[64] = control;
    found[65] = status;
    for (size_t index = 0; index < sizeof found / sizeof *found; index++)
        count += found[index] != 0;
    __asm__ volatile(PLANT(0) PLANT(1) PLANT(2) PLANT(3) PLANT(4) PLANT(5) PLANT(6) PLANT(7)
                     PLANT(8) PLANT(9) PLANT(10) PLANT(11) PLANT(12) PLANT(13) PLANT(14) PLANT(15)
                     PLANT(16) PLANT(17) PLANT(18) PLANT(19) PLANT(20) PLANT(21) PLANT(22) PLANT(23)
                     PLANT(24) PLANT(25) PLANT(26) PLANT(27) PLANT(28) PLANT(29) PLANT(30) PLANT(31)
                     "msr FPCR, %2\n\tmsr FPSR, %3"
                     : "+r"(count)
                     : "r"(pattern), "r"(UINT64_C(0x07c00000)), "r"(UINT64_C(0x0800009f))
                     : "memory");
    return count;
}
