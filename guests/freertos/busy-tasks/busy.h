/* Periodic tasks of a payload that only compute. */
#ifndef BUSY_H
#define BUSY_H

#include <stdint.h>

/* Creates the tasks that the arguments begin with: `tasks=50/10/8,300/100/4` = period and cost in milliseconds, and priority. Last before
   the scheduler is started. Returns what follows them. */
const char *busy_create(const char *text);

/* The number at `text`, which is moved behind it and the character that follows, unless that is a space. */
uint64_t busy_number(const char **text);

/* The text begins with this key, behind which it is moved. */
_Bool busy_has_key(const char **text, const char *key);

/* Says of each task what was seen: jobs, response times in ticks of the counter, deadlines missed. */
void busy_print(void);

#endif
