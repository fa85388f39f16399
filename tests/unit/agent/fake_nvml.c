/* A libnvidia-ml.so.1 of two GPUs: the first computes and has 40 processes, the second draws no power that is known. */
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process_t;
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
    rates->gpu = *device ? 100 : 97;
    rates->memory = *device ? 0 : 21;
    return 0;
}
int nvmlDeviceGetPowerUsage(int *device, unsigned *milliwatts) {
    if (*device) return 3;
    *milliwatts = 350500;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(int *device, unsigned *count, process_t *processes) {
    unsigned room = *count, own = *device ? 2 : 40;
    *count = own;
    if (room < own) return 7;
    for (unsigned number = 0; number < own; number++) {
        processes[number].pid = 70 + number;
        processes[number].used = number == 1 ? ~0ull : 3ull << 30;
    }
    return 0;
}
