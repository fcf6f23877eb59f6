/*
 * One end of a channel on the host, for c_header.rs: peer FILE DIRECTION KIND MESSAGE_BYTES SLOTS NOW COMMAND...
 *
 * FILE holds the window's bytes; it is read, the port is opened, the commands run in order, and it is written back. Commands:
 * +TEXT writes or sends TEXT, - reads or receives. Each prints its answer, and what was read: "RESULT SEQUENCE IS_NEW TEXT".
 */
#include "bulkhead.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_one(struct bulkhead_port *port) {
    static uint8_t buffer[4032];
    struct bulkhead_message message = {0};
    int result = port->kind == BULKHEAD_PORT_SAMPLING ? bulkhead_sampling_read(port, buffer, sizeof buffer, &message)
                                                      : bulkhead_queuing_receive(port, buffer, sizeof buffer, &message);
    if (result == BULKHEAD_OK)
        printf("%d %llu %u %.*s\n", result, (unsigned long long)message.sequence, message.is_new, (int)message.bytes, (char *)buffer);
    else
        printf("%d\n", result);
    return result;
}

static int write_one(struct bulkhead_port *port, const char *text, uint64_t now_ticks) {
    uint32_t bytes = (uint32_t)strlen(text);
    int result = port->kind == BULKHEAD_PORT_SAMPLING ? bulkhead_sampling_write(port, text, bytes, now_ticks)
                                                      : bulkhead_queuing_send(port, text, bytes, now_ticks);
    printf("%d\n", result);
    return result;
}

int main(int count, char **arguments) {
    if (count < 7)
        return 2;
    FILE *file = fopen(arguments[1], "r+b");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        return 3;
    size_t bytes = (size_t)ftell(file);
    void *window = aligned_alloc(4096, bytes);
    rewind(file);
    if (!window || fread(window, 1, bytes, file) != bytes)
        return 3;
    struct bulkhead_port_information information = {
        .window = (uint64_t)(uintptr_t)window,
        .window_bytes = bytes,
        .direction = (uint32_t)atoi(arguments[2]),
        .kind = (uint32_t)atoi(arguments[3]),
        .message_bytes = (uint32_t)atoi(arguments[4]),
        .slots = (uint32_t)atoi(arguments[5]),
        .doorbell = BULKHEAD_NO_DOORBELL,
    };
    uint64_t now_ticks = strtoull(arguments[6], NULL, 10);
    struct bulkhead_port port;
    int result = information.direction == BULKHEAD_DIRECTION_SOURCE ? bulkhead_open_source(&port, &information, now_ticks)
                                                                    : bulkhead_open_destination(&port, &information);
    printf("%d\n", result);
    for (int index = 7; result == BULKHEAD_OK && index < count; index++) {
        if (arguments[index][0] == '+')
            write_one(&port, arguments[index] + 1, now_ticks);
        else
            read_one(&port);
    }
    rewind(file);
    if (fwrite(window, 1, bytes, file) != bytes || fclose(file) != 0)
        return 3;
    free(window);
    return 0;
}
