/* The kernel includes the header of this name for size_t; a freestanding compiler has none. */
#ifndef STDLIB_H
#define STDLIB_H

#include <stddef.h>

#endif
