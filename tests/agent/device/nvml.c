// NVIDIA's NVML with one GPU, as far as the agent asks: each answer is what the environment says, and is "not supported"
// where it says nothing.
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
static int gpu;

static int text(const char *name, char *into, unsigned length) {
    const char *said = getenv(name);
    if (!said) return NOT_SUPPORTED;
    if (strlen(said) >= length) return INSUFFICIENT_SIZE;
    strcpy(into, said);
    return SUCCESS;
}

static int number(const char *name, unsigned long long *into) {
    const char *said = getenv(name);
    if (said) *into = strtoull(said, NULL, 0);
    return said ? SUCCESS : NOT_SUPPORTED;
}

static int small(const char *name, void *device, unsigned *into) {
    unsigned long long value;
    int failed = device != &gpu || number(name, &value);
    if (!failed) *into = (unsigned)value;
    return failed ? NOT_SUPPORTED : SUCCESS;
}

int nvmlInit_v2(void) { return getenv("NVML_NAME") ? SUCCESS : NOT_FOUND; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { return *device = &gpu, index ? NOT_FOUND : SUCCESS; }
int nvmlDeviceGetName(void *device, char *into, unsigned length) {
    return device == &gpu ? text("NVML_NAME", into, length) : NOT_SUPPORTED;
}
int nvmlSystemGetDriverVersion(char *into, unsigned length) { return text("NVML_DRIVER", into, length); }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    char said[8];
    if (device != &gpu || text("NVML_CAPABILITY", said, sizeof said)) return NOT_SUPPORTED;
    char *rest;
    *major = (int)strtol(said, &rest, 10);
    *minor = atoi(rest + 1);
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(void *device, Memory *into) {
    return device == &gpu ? number("NVML_MEMORY", &into->total) : NOT_SUPPORTED;
}
int nvmlDeviceGetUtilizationRates(void *device, Utilization *into) { return small("NVML_LOAD", device, &into->gpu); }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *into) {
    return sensor ? NOT_SUPPORTED : small("NVML_TEMPERATURE", device, into);
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *into) { return small("NVML_MILLIWATTS", device, into); }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *into) {
    return device == &gpu ? number("NVML_REASONS", into) : NOT_SUPPORTED;
}
