/* Configuration of the kernel: what its documentation asks an application to decide. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#define configUSE_PREEMPTION                    1
#define configUSE_PORT_OPTIMISED_TASK_SELECTION 1
#define configUSE_IDLE_HOOK                     1
#define configUSE_TICK_HOOK                     0
#define configTICK_RATE_HZ                      1000
#define configMAX_PRIORITIES                    8
#define configMINIMAL_STACK_SIZE                256
#define configTOTAL_HEAP_SIZE                   (64 * 1024)
#define configMAX_TASK_NAME_LEN                 16
#define configTICK_TYPE_WIDTH_IN_BITS           TICK_TYPE_WIDTH_64_BITS
#define configIDLE_SHOULD_YIELD                 1
#define configUSE_MUTEXES                       0
#define configUSE_TIMERS                        0
#define configCHECK_FOR_STACK_OVERFLOW          0
#define configSUPPORT_STATIC_ALLOCATION         0
#define configSUPPORT_DYNAMIC_ALLOCATION        1
#define configUSE_TASK_FPU_SUPPORT              1

#define INCLUDE_xTaskDelayUntil                 1
#define INCLUDE_vTaskDelay                      1

/* Five bits of interrupt priority, physical and virtual. The tick has the lowest usable priority. */
#define configUNIQUE_INTERRUPT_PRIORITIES       32
#define configMAX_API_CALL_INTERRUPT_PRIORITY   20

#ifndef __ASSEMBLER__
void board_start_tick(void);
void board_next_tick(void);
void board_assertion_failed(const char *file, int line);
#define configSETUP_TICK_INTERRUPT()            board_start_tick()
#define configCLEAR_TICK_INTERRUPT()            board_next_tick()
#define configASSERT(condition)                 do { if (!(condition)) board_assertion_failed(__FILE__, __LINE__); } while (0)
#endif

#endif
