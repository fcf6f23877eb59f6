/*
 * A guest in C: prints through its console ring, publishes on the port "telemetry" if there is one, and shows what arrives
 * on the port "commands". Built by sdk/c/build.sh.
 */
#include "bulkhead.h"

static struct bulkhead_console console;

static void print(const char *text) {
    for (; *text; text++)
        bulkhead_console_write(&console, (uint8_t)*text, bulkhead_counter_ticks());
}

static void print_number(uint64_t value) {
    char digits[21];
    unsigned at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    print(&digits[at]);
}

/* Publishes a few values; the peer sees the newest. */
static void publish(const struct bulkhead_port_information *information) {
    struct bulkhead_port port;
    if (bulkhead_open_source(&port, information, bulkhead_counter_ticks()) != BULKHEAD_OK) {
        print("c guest: port telemetry does not open\n");
        return;
    }
    for (uint64_t value = 1; value <= 3; value++) {
        int result = port.kind == BULKHEAD_PORT_SAMPLING
                         ? bulkhead_sampling_write(&port, &value, sizeof value, bulkhead_counter_ticks())
                         : bulkhead_queuing_send(&port, &value, sizeof value, bulkhead_counter_ticks());
        if (result == BULKHEAD_OK)
            bulkhead_ring(&port);
        print("c guest: telemetry ");
        print_number(value);
        print(result == BULKHEAD_OK ? " sent\n" : " not sent\n");
    }
}

/* Takes messages until nothing is waiting. */
static void receive(const struct bulkhead_port_information *information) {
    static uint8_t buffer[4032];
    struct bulkhead_message message;
    struct bulkhead_port port;
    if (bulkhead_open_destination(&port, information) != BULKHEAD_OK) {
        print("c guest: port commands does not open\n");
        return;
    }
    while (port.kind == BULKHEAD_PORT_QUEUING &&
           bulkhead_queuing_receive(&port, buffer, sizeof buffer, &message) == BULKHEAD_OK) {
        print("c guest: command of ");
        print_number(message.bytes);
        print(" bytes\n");
    }
}

int main(void) {
    const struct bulkhead_guest_information *information = bulkhead_information();
    if (information->magic != BULKHEAD_GUEST_MAGIC || information->abi_version != BULKHEAD_ABI_VERSION)
        return 1;
    if (bulkhead_console_open(&console, information->console, information->console_bytes) != BULKHEAD_OK)
        return 1;
    print("c guest: hello from ");
    print(information->name);
    print(", arguments \"");
    print(information->arguments);
    print("\"\n");
    const struct bulkhead_port_information *port = bulkhead_find_port(information, "telemetry");
    if (port)
        publish(port);
    port = bulkhead_find_port(information, "commands");
    if (port)
        receive(port);
    print("c guest: goodbye\n");
    return 0;
}
