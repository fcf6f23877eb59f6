/*
 * Configuration of the kernel as payload of the secure world.
 *
 * Interrupts of the payload are in the urgent half of the priorities, 0x00 to 0x70. The port computes the priority of its tick and the
 * mask of its critical sections from the number of priorities, and refuses masks in the urgent half of what it believes to have; with
 * the 32 levels that exist the tick would be 0xf0, which an interrupt of the other world that is never ended could hold up. So the names
 * below hold enumerators: the preprocessor, which makes the port's checks, reads them as 0 and sees 32 levels and mask 20; the compiler reads
 * 16 levels and mask 8, so the tick is 0x70 and the mask 0x40. The port's own assertions hold for both.
 */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#define configUSE_PREEMPTION                    1
#define configUSE_PORT_OPTIMISED_TASK_SELECTION 1
#define configUSE_IDLE_HOOK                     1
#define configUSE_TICK_HOOK                     0
#define configTICK_RATE_HZ                      1000
#define configMAX_PRIORITIES                    16
#define configMINIMAL_STACK_SIZE                256
#define configTOTAL_HEAP_SIZE                   (128 * 1024)
#define configMAX_TASK_NAME_LEN                 16
#define configTICK_TYPE_WIDTH_IN_BITS           TICK_TYPE_WIDTH_64_BITS
#define configIDLE_SHOULD_YIELD                 1
#define configUSE_MUTEXES                       0
#define configUSE_TIMERS                        0
#define configCHECK_FOR_STACK_OVERFLOW          0
#define configSUPPORT_STATIC_ALLOCATION         0
#define configSUPPORT_DYNAMIC_ALLOCATION        1
#define configUSE_TASK_FPU_SUPPORT              1
#define configUSE_TASK_NOTIFICATIONS            1
#define configNUM_THREAD_LOCAL_STORAGE_POINTERS 1

#define INCLUDE_xTaskDelayUntil                 1
#define INCLUDE_vTaskDelay                      1
#define INCLUDE_vTaskSuspend                    1
#define INCLUDE_vTaskDelete                     1
#define INCLUDE_vTaskPrioritySet                1
#define INCLUDE_xTaskResumeFromISR              1
#define INCLUDE_xTaskGetCurrentTaskHandle       1
#define INCLUDE_xTaskGetSchedulerState          1

#define configUNIQUE_INTERRUPT_PRIORITIES       (32 - board_other_half)
#define configMAX_API_CALL_INTERRUPT_PRIORITY   (20 - board_other_part)

#ifndef __ASSEMBLER__
enum { board_other_half = 16, board_other_part = 12 };

void board_start_tick(void);
void board_next_tick(void);
void board_assertion_failed(const char *file, int line);
#define configSETUP_TICK_INTERRUPT()            board_start_tick()
#define configCLEAR_TICK_INTERRUPT()            board_next_tick()
#define configASSERT(condition)                 do { if (!(condition)) board_assertion_failed(__FILE__, __LINE__); } while (0)

/* The world's servers are tasks, which may be deleted. */
void world_task_deleted(const void *task);
/* The hook of a switch: in tasks.c, where the kernel's own type of a task is known. */
void world_switched_in(const void *place);
#define traceTASK_DELETE(task)                  world_task_deleted(task)
#define traceTASK_SWITCHED_IN()                 world_switched_in(pxCurrentTCB->pvThreadLocalStoragePointers[0])
#endif

#endif
