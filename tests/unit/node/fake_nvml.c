/* A libnvidia-ml.so.1 of two GPUs: the first computes and has 40 processes, the second has no power and temperature that are known.
   STUCK: a driver whose calls don't return. GROWS: there are always more processes than room was given for.
   SAMPLED: the number of the process that reads the first GPU's memory, 30 % of the time. */
#include <unistd.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct {
    unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance;
#ifdef WIDE /* as some drivers of R535 and R550 answer under the same name */
    unsigned long long protected_memory;
#endif
} process_t;
typedef struct { unsigned pid; unsigned long long at_us; unsigned sm, memory, encoder, decoder; } use_t;
static int gpus[2] = {0, 1};

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned number, int **device) {
    if (number > 1) return 2;
    *device = &gpus[number];
    return 0;
}
int nvmlDeviceGetHandleByUUID(const char *name, int **device) {
    if (strcmp(name, "GPU-second")) return 6;
    *device = &gpus[1];
    return 0;
}
int nvmlDeviceGetMemoryInfo(int *device, memory_t *memory) {
    memory->total = 80ull << 30;
    memory->used = 20ull << 30;
    memory->free = 60ull << 30;
    return 0;
}
int nvmlDeviceGetUtilizationRates(int *device, utilization_t *rates) {
#ifdef STUCK
    for (;;) pause();
#endif
    rates->gpu = *device ? 100 : 97;
    rates->memory = *device ? 0 : 21;
    return 0;
}
int nvmlDeviceGetPowerUsage(int *device, unsigned *milliwatts) {
    if (*device) return 3;
    *milliwatts = 350500;
    return 0;
}
int nvmlDeviceGetTemperature(int *device, int sensor, unsigned *celsius) {
    if (sensor) return 2;
    if (*device) return 3;
    *celsius = 61;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(int *device, unsigned *count, process_t *processes) {
    unsigned room = *count, own = *device ? 2 : 40;
#ifdef GROWS
    own = room + 1;
#endif
    *count = own;
    if (room < own) return 7;
    for (unsigned number = 0; number < own; number++) {
        process_t one = {70 + number, number == 1 ? ~0ull : (*device ? 3ull : 1ull) << 30, ~0u, ~0u};
        processes[number] = one;
    }
    return 0;
}
#ifdef SAMPLED
int nvmlDeviceGetProcessUtilization(int *device, use_t *uses, unsigned *count, unsigned long long since) {
    if (*device) return 6;
    unsigned room = *count;
    *count = 1;
    if (!uses || !room) return 7;
    use_t one = {SAMPLED, since + 1, 90, 30};
    uses[0] = one;
    return 0;
}
#endif
