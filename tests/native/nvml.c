/* A libnvidia-ml.so.1 of eight GPUs for tests. What it answers stands in the file that FAKE_NVML_CONTROL names, read
 * again at each call, one `key value` a line; the more special key wins:
 *
 *   count 8                              how many GPUs nvmlDeviceGetCount tells of
 *   code.<function>[.<gpu>] 15           what a function returns, for one GPU or for all
 *   code.any.<gpu> 15                    what every function returns for a GPU
 *   code.field.<id>[.<gpu>] 3            what stands in nvmlReturn of a field
 *   hang.<function>[.<gpu>] 1            the function does not return while this line is there
 *   value.<name>[.<gpu>] 312000          a number; names are in the functions below, fields are value.field.<id>
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS 64

typedef unsigned int number;
typedef unsigned long long big;

static char devices[GPUS];

/* Return the value behind `key`, or -1 when there is none; values are never negative but for a margin, see below. */
static int find(const char *key, long long *value) {
    const char *path = getenv("FAKE_NVML_CONTROL");
    FILE *file = path ? fopen(path, "r") : NULL;
    char name[128];
    long long read;
    int found = 0;
    if (!file) return 0;
    while (fscanf(file, "%127s %lld", name, &read) == 2)
        if (!strcmp(name, key)) {
            *value = read;
            found = 1;
        }
    fclose(file);
    return found;
}

static long long setting(const char *kind, const char *name, int gpu, long long otherwise) {
    char key[192];
    long long value;
    if (gpu >= 0) {
        snprintf(key, sizeof key, "%s.%s.%d", kind, name, gpu);
        if (find(key, &value)) return value;
    }
    snprintf(key, sizeof key, "%s.%s", kind, name);
    return find(key, &value) ? value : otherwise;
}

static int enter(const char *function, int gpu) {
    while (setting("hang", function, gpu, 0)) usleep(10000);
    int code = (int)setting("code", function, gpu, 0);
    return code || gpu < 0 ? code : (int)setting("code", "any", gpu, 0);
}

static int index_of(void *device) { return (int)((char *)device - devices); }

#define ENTER(gpu)                            \
    int code = enter(__func__, gpu);          \
    if (code) return code

int nvmlInitWithFlags(number flags) {
    (void)flags;
    ENTER(-1);
    return 0;
}

int nvmlShutdown(void) { return 0; }

const char *nvmlErrorString(int code) {
    (void)code;
    return "an error";
}

int nvmlDeviceGetCount_v2(number *count) {
    ENTER(-1);
    long long value = 8;
    find("count", &value);
    *count = (number)value;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(number index, void **device) {
    if (index >= GPUS) return 2;
    ENTER((int)index);
    *device = &devices[index];
    return 0;
}

int nvmlDeviceGetName(void *device, char *name, number length) {
    ENTER(index_of(device));
    snprintf(name, length, "NVIDIA H100 80GB HBM3");
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, number length) {
    int gpu = index_of(device);
    ENTER(gpu);
    snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012llx", 0xabc000ULL + setting("value", "uuid", gpu, gpu));
    return 0;
}

struct pci {
    char legacy[16];
    number domain, bus, device, id, subsystem;
    char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci) {
    int gpu = index_of(device);
    ENTER(gpu);
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x1A + (number)gpu;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return 0;
}

#define NUMBER(function, type, name, otherwise)                         \
    int function(void *device, type *value) {                           \
        int gpu = index_of(device);                                     \
        ENTER(gpu);                                                     \
        *value = (type)setting("value", name, gpu, otherwise);          \
        return 0;                                                       \
    }

NUMBER(nvmlDeviceGetPowerUsage, number, "power", 312345)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, number, "power_limit", 700000)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, big, "reasons", 4)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, big, "old_reasons", 1)

int nvmlDeviceGetClockInfo(void *device, number clock, number *value) {
    int gpu = index_of(device);
    ENTER(gpu);
    *value = (number)setting("value", clock == 1 ? "sm_clock" : "other_clock", gpu, 1755);
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, number *rates) {
    int gpu = index_of(device);
    ENTER(gpu);
    rates[0] = (number)setting("value", "util", gpu, 98);
    rates[1] = (number)setting("value", "mem_util", gpu, 41);
    return 0;
}

int nvmlDeviceGetTemperature(void *device, number sensor, number *value) {
    int gpu = index_of(device);
    (void)sensor;
    ENTER(gpu);
    *value = (number)setting("value", "old_temp", gpu, 60);
    return 0;
}

struct temperature {
    number version, sensor;
    int value;
};

int nvmlDeviceGetTemperatureV(void *device, struct temperature *temperature) {
    int gpu = index_of(device);
    ENTER(gpu);
    if (temperature->version != 0x100000C) return 25;
    temperature->value = (int)setting("value", "temp", gpu, 61);
    return 0;
}

struct margin {
    number version;
    int value;
};

int nvmlDeviceGetMarginTemperature(void *device, struct margin *margin) {
    int gpu = index_of(device);
    ENTER(gpu);
    if (margin->version != 0x1000008) return 25;
    margin->value = (int)setting("value", "margin", gpu, 26);
    return 0;
}

struct memory {
    big total, free, used;
};

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    int gpu = index_of(device);
    ENTER(gpu);
    memory->total = (big)setting("value", "memory_total_mib", gpu, 81559) << 20;
    memory->used = (big)setting("value", "old_memory_used_mib", gpu, 71000) << 20;
    memory->free = memory->total - memory->used;
    return 0;
}

struct memory_v2 {
    number version;
    big total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory) {
    int gpu = index_of(device);
    ENTER(gpu);
    if (memory->version != 0x02000028) return 25;
    memory->total = (big)setting("value", "memory_total_mib", gpu, 81559) << 20;
    memory->used = (big)setting("value", "memory_used_mib", gpu, 70512) << 20;
    memory->reserved = 500ULL << 20;
    memory->free = memory->total - memory->used - memory->reserved;
    return 0;
}

struct field {
    uint32_t id, scope;
    int64_t timestamp, latency;
    number type, code;
    union {
        double d;
        number ui;
        big ull;
    } value;
};

int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields) {
    int gpu = index_of(device);
    ENTER(gpu);
    for (int i = 0; i < count; i++) {
        struct field *field = &fields[i];
        char name[32];
        snprintf(name, sizeof name, "field.%u", field->id);
        int whole = field->id == 138 || field->id == 139;
        int known = field->id == 82 || (whole && field->scope == UINT32_MAX);
        long long value = setting("value", name, gpu, known ? (long long)field->id * 1000 + gpu : -1);
        field->code = (number)setting("code", name, gpu, value < 0 ? 3 : 0);
        field->type = field->id == 82 ? 1 : 3;
        if (field->id == 82)
            field->value.ui = (number)setting("value", name, gpu, 55);
        else
            field->value.ull = (big)value;
    }
    return 0;
}

int nvmlDeviceGetPcieThroughput(void *device, number counter, number *value) {
    int gpu = index_of(device);
    ENTER(gpu);
    usleep(20000);
    *value = (number)setting("value", counter ? "pcie_rx" : "pcie_tx", gpu, counter ? 120000 : 90000);
    return 0;
}
