/*
 * Boot arguments: the property `bootargs` of the node `/chosen` (Devicetree Specification, flattened format).
 *
 * The tree comes from the board or from the monitor, both trusted by this guest; still every read stays inside the size
 * that the header claims.
 */
#include "board.h"
#include <stddef.h>
#include <string.h>

#define FDT_MAGIC           0xd00dfeedU
#define FDT_BEGIN_NODE      1U
#define FDT_END_NODE        2U
#define FDT_PROPERTY        3U
#define FDT_NOP             4U
/* Where the board leaves its tree when it starts an ELF file and passes nothing in x0. */
#define BASE_OF_RAM         0x40000000UL
/* No tree is larger; also the limit of what the header may claim. */
#define TREE_BYTES_MAX      0x200000U

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The string at `offset` if it ends before `size`, else NULL. */
static const char *string_at(const uint8_t *tree, uint32_t size, uint32_t offset)
{
    if (offset >= size || memchr(tree + offset, 0, size - offset) == NULL)
        return NULL;
    return (const char *)(tree + offset);
}

static const char *boot_arguments(const uint8_t *tree)
{
    uint32_t size, position, strings, depth = 0;
    int in_chosen = 0;

    if (big_endian(tree) != FDT_MAGIC)
        return NULL;
    size = big_endian(tree + 4);
    position = big_endian(tree + 8);
    strings = big_endian(tree + 12);
    if (size > TREE_BYTES_MAX || position > size || strings > size)
        return NULL;
    while (size - position >= 12) {
        uint32_t token = big_endian(tree + position);
        position += 4;
        if (token == FDT_BEGIN_NODE) {
            const char *name = string_at(tree, size, position);
            if (name == NULL)
                return NULL;
            depth++;
            in_chosen = depth == 2 && strcmp(name, "chosen") == 0;
            position += ((uint32_t)strlen(name) + 4) & ~3U;
        } else if (token == FDT_END_NODE) {
            depth--;
            in_chosen = 0;
        } else if (token == FDT_PROPERTY) {
            uint32_t length = big_endian(tree + position);
            uint32_t name_offset = big_endian(tree + position + 4);
            const char *name = name_offset < size - strings ? string_at(tree, size, strings + name_offset) : NULL;
            position += 8;
            if (name == NULL || length > size - position)
                return NULL;
            if (in_chosen && strcmp(name, "bootargs") == 0)
                return string_at(tree, position + length, position);
            position += (length + 3) & ~3U;
        } else if (token != FDT_NOP) {
            return NULL;
        }
        if (position > size)
            return NULL;
    }
    return NULL;
}

uint64_t arguments_number(const void *device_tree, const char *name, uint64_t otherwise)
{
    const char *text = boot_arguments(device_tree != NULL ? device_tree : (const void *)BASE_OF_RAM);
    size_t name_length = strlen(name);

    while (text != NULL && *text != '\0') {
        if (strncmp(text, name, name_length) == 0 && text[name_length] == '=') {
            uint64_t number = 0;
            for (text += name_length + 1; *text >= '0' && *text <= '9'; text++)
                number = number * 10 + (uint64_t)(*text - '0');
            return number;
        }
        text = strchr(text, ' ');
        if (text != NULL)
            text++;
    }
    return otherwise;
}
