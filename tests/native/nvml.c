/* A libnvidia-ml.so.1 of eight GPUs for tests. What it answers stands in the file that FAKE_NVML_CONTROL names, read
 * again at each call, one `key value` a line; the more special key wins:
 *
 *   count 8                              how many GPUs nvmlDeviceGetCount tells of
 *   code.<function>[.<gpu>] 15           what a function returns, for one GPU or for all
 *   code.any.<gpu> 15                    what every function returns for a GPU
 *   code.field.<id>[.<gpu>] 3            what stands in nvmlReturn of a field
 *   hang.<function>[.<gpu>] 1            the function does not return while this line is there
 *   slow.<function>[.<gpu>] 800          the function takes so many milliseconds
 *   value.<name>[.<gpu>] 312000          a number; names are in the functions below, fields are value.field.<id>, those
 *                                        of one link value.field.<id>.at<link>
 *
 * Each call is written to the file that FAKE_NVML_CALLS names, `function gpu`. With -DOLD it is a driver of 2021: what came later is not there.
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
static char instances[GPUS * 8];

static struct {
    char name[128];
    long long value;
} settings[256];
static int count_of_settings;

/* Read the control file. */
static void load(void) {
    const char *path = getenv("FAKE_NVML_CONTROL");
    FILE *file = path ? fopen(path, "r") : NULL;
    count_of_settings = 0;
    if (!file) return;
    while (count_of_settings < 256 &&
           fscanf(file, "%127s %lld", settings[count_of_settings].name, &settings[count_of_settings].value) == 2)
        count_of_settings++;
    fclose(file);
}

/* Find the value behind `key`. */
static int find(const char *key, long long *value) {
    for (int i = 0; i < count_of_settings; i++)
        if (!strcmp(settings[i].name, key)) {
            *value = settings[i].value;
            return 1;
        }
    return 0;
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
    const char *log = getenv("FAKE_NVML_CALLS");
    FILE *calls = log ? fopen(log, "a") : NULL;
    if (calls) {
        fprintf(calls, "%s %d\n", function, gpu);
        fclose(calls);
    }
    load();
    usleep((useconds_t)setting("slow", function, gpu, 0) * 1000);
    while (setting("hang", function, gpu, 0)) {
        usleep(10000);
        load();
    }
    int code = (int)setting("code", function, gpu, 0);
    return code || gpu < 0 ? code : (int)setting("code", "any", gpu, 0);
}

/* Return the GPU of a device, and that of an instance of a divided GPU. */
static int index_of(void *device) {
    char *at = device;
    if (at >= instances && at < instances + sizeof instances) return (int)(at - instances) / 8;
    return (int)(at - devices);
}

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
    *value = clock == 1   ? (number)setting("value", "sm_clock", gpu, 1755)
             : clock == 2 ? (number)setting("value", "mem_clock", gpu, 2619)
                          : 0;
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

static long long driver(const char *part) {
    return setting("value", part, -1, !strcmp(part, "driver_major") ? 580 : 126);
}

/* Return which of the three throttle times a field is, from 1 on, or 0: the ids moved. */
static number throttle_of(number id) {
    long long major = driver("driver_major"), minor = driver("driver_minor");
    number first = major > 580 || (major == 580 && minor >= 82) ? 269 : major == 575 || major == 580 ? 251 : 0;
    return first && id >= first && id < first + 3 ? id - first + 1 : 0;
}

/* Return what a field is worth when no setting says it, or -1 for one that there is not. */
static long long field_value(number id, number scope, int gpu) {
    long long major = driver("driver_major");
    int link = scope < (number)setting("value", "links", gpu, 18);
    int blackwell = setting("value", "generation", gpu, 9) >= 10;
    if (throttle_of(id)) return throttle_of(id) * 7000000000LL + gpu;
    switch (id) {
    case 1: return setting("value", "ecc_mode", gpu, 1);
    case 74: return 5000001499LL + gpu * 1000;
    case 90: return link ? 25781 : -1;
    case 94: return 150 + gpu;
    case 138: case 139: return scope == UINT32_MAX ? (long long)id * 1000 + gpu : -1;
    case 142: return 2;
    case 143: return 1;
    case 144: return 0;
    case 145: return 0;
    case 161: case 162: case 163: return major >= 525 && link ? (blackwell ? 0 : (long long)id * 100 + scope) : -1;
    case 164: return major >= 525 && link ? 26562 : -1;
    case 165: return major >= 525 && link ? 1 : -1;
    case 194: return 2;
    case 219: case 221: return blackwell && link ? (long long)id * 100 + scope : -1;
    case 230: return major >= 570 ? 0 : -1;
    case 251: case 252: case 253: return major >= 570 ? 1 : -1;
    default: return -1;
    }
}

struct field {
    uint32_t id, scope;
    int64_t timestamp, latency;
    number type, code;
    union {
        double d;
        number ui;
        int si;
        big ull;
    } value;
};

int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields) {
    int gpu = index_of(device);
    ENTER(gpu);
    for (int i = 0; i < count; i++) {
        struct field *field = &fields[i];
        char name[32], here[48];
        snprintf(name, sizeof name, "field.%u", field->id);
        snprintf(here, sizeof here, "%s.at%u", name, field->scope);
        long long value = setting("value", name, gpu, field_value(field->id, field->scope, gpu));
        value = setting("value", here, gpu, value);
        field->code = (number)setting("code", here, gpu, setting("code", name, gpu, value < 0 ? 3 : 0));
        field->type = field->id == 82 ? 1 : field->id == 194 ? 5 : 3;
        if (field->id == 82) {
            field->code = (number)setting("code", name, gpu, 0);
            field->value.ui = (number)setting("value", name, gpu, 55);
        } else if (field->id == 194)
            field->value.si = (int)-value;
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

/* ---------------------------------------------- what is read rarely */

int nvmlSystemGetDriverVersion(char *version, number length) {
    ENTER(-1);
    snprintf(version, length, "%lld.%02lld.20", driver("driver_major"), driver("driver_minor"));
    return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    ENTER(-1);
    *version = (int)setting("value", "cuda", -1, 13000);
    return 0;
}

int nvmlDeviceGetVbiosVersion(void *device, char *version, number length) {
    int gpu = index_of(device);
    ENTER(gpu);
    snprintf(version, length, "96.00.74.00.%02llX", setting("value", "vbios", gpu, 1));
    return 0;
}

NUMBER(nvmlDeviceGetPerformanceState, number, "pstate", 0)
NUMBER(nvmlDeviceGetPersistenceMode, number, "persistence", 1)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, number, "pcie_gen", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, number, "pcie_width", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, number, "pcie_gen_max", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, number, "pcie_width_max", 16)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, number, "power_default", 700500)
NUMBER(nvmlDeviceGetArchitecture, number, "generation", 9)

int nvmlDeviceGetMaxClockInfo(void *device, number clock, number *value) {
    int gpu = index_of(device);
    ENTER(gpu);
    *value = clock == 1 ? (number)setting("value", "sm_clock_max", gpu, 1980) : 0;
    return 0;
}

int nvmlDeviceGetTemperatureThreshold(void *device, number kind, number *value) {
    int gpu = index_of(device);
    ENTER(gpu);
    *value = kind == 1 ? (number)setting("value", "slowdown", gpu, 89) : 0;
    return 0;
}

int nvmlDeviceGetMigMode(void *device, number *current, number *pending) {
    int gpu = index_of(device);
    ENTER(gpu);
    *current = (number)setting("value", "mig", gpu, 0);
    *pending = (number)setting("value", "mig_pending", gpu, 0);
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, number index, void **instance) {
    int gpu = index_of(device);
    ENTER(gpu);
    if (index >= (number)setting("value", "instances", gpu, 0)) return 6;
    *instance = &instances[gpu * 8 + (int)index];
    return 0;
}

int nvmlDeviceGetMemoryErrorCounter(void *device, number type, number span, number place, big *value) {
    int gpu = index_of(device);
    ENTER(gpu);
    char name[32];
    snprintf(name, sizeof name, "ecc.%u.%u.%u", type, span, place);
    if (type > 1 || span > 1 || (place != 2 && place != 7) || !setting("value", "ecc_mode", gpu, 1)) return 3;
    *value = (big)setting("value", name, gpu, type * 100 + span * 10 + place);
    return 0;
}

int nvmlDeviceGetRowRemapperHistogram(void *device, number *banks) {
    int gpu = index_of(device);
    ENTER(gpu);
    for (int i = 0; i < 4; i++) banks[i] = 2560 - (number)i;
    banks[4] = (number)setting("value", "banks_none", gpu, 3);
    return 0;
}

struct process {
    number pid;
    big used;
    number instance, compute;
};

/* Write the processes: the first on a GPU has number 4000 + 10 * gpu, and as many more follow; those of an instance
 * count from its own number. One that draws is the first that computes. */
static int processes(const char *function, const char *name, void *device, number *count, struct process *list) {
    int gpu = index_of(device), divided = (char *)device >= instances && (char *)device < instances + sizeof instances;
    int code = enter(function, gpu);
    if (code) return code;
    if (setting("value", "mig", gpu, 0) && !divided) return 4;
    number have = (number)setting("value", name, gpu, 0), room = *count;
    *count = have;
    if (have > room) return 7;
    for (number i = 0; i < have; i++) {
        list[i].pid = 4000 + 10 * (number)gpu + i + (divided ? (number)((char *)device - instances) % 8 : 0);
        list[i].used = setting("value", "process_unknown", gpu, 0) ? ~0ULL
                                                                    : (big)setting("value", "process_mib", gpu, 60000) << 20;
        list[i].instance = list[i].compute = divided ? 1 : UINT32_MAX;
    }
    return 0;
}

#define PROCESSES(function, name)                                               \
    int function(void *device, number *count, struct process *list) {           \
        return processes(__func__, name, device, count, list);                  \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "compute")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")

int nvmlDeviceGetNvLinkState(void *device, number link, number *state) {
    int gpu = index_of(device);
    ENTER(gpu);
    char name[32];
    snprintf(name, sizeof name, "link_state.%u", link);
    if (link >= (number)setting("value", "links", gpu, 18)) return 2;
    *state = (number)setting("value", name, gpu, 1);
    return 0;
}

int nvmlDeviceGetNvLinkErrorCounter(void *device, number link, number counter, big *value) {
    int gpu = index_of(device);
    ENTER(gpu);
    if (link >= (number)setting("value", "links", gpu, 18) || counter > 2) return 2;
    *value = 1000 + counter * 100 + link;
    return 0;
}

#ifndef OLD
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")

struct sram {
    number version;
    big sums[11];
    number exceeded;
};

int nvmlDeviceGetSramEccErrorStatus(void *device, struct sram *sram) {
    int gpu = index_of(device);
    ENTER(gpu);
    if (sram->version != 0x1000068) return 25;
    for (number i = 0; i < 11; i++) sram->sums[i] = 1 << i;
    sram->exceeded = (number)setting("value", "sram_exceeded", gpu, 0);
    return 0;
}

struct fabric {
    char cluster[16];
    int status;
    number clique;
    unsigned char state;
};

static void tell_fabric(int gpu, struct fabric *fabric) {
    memset(fabric->cluster, 0xff, sizeof fabric->cluster);
    fabric->status = (int)setting("value", "fabric_status", gpu, 0);
    fabric->clique = 77;
    fabric->state = (unsigned char)setting("value", "fabric_state", gpu, 3);
}

int nvmlDeviceGetGpuFabricInfo(void *device, struct fabric *fabric) {
    int gpu = index_of(device);
    ENTER(gpu);
    tell_fabric(gpu, fabric);
    return 0;
}

struct fabric_v2 {
    number version;
    struct fabric fabric;
    number mask;
};

int nvmlDeviceGetGpuFabricInfoV(void *device, struct fabric_v2 *fabric) {
    int gpu = index_of(device);
    ENTER(gpu);
    if (fabric->version != 0x02000024) return 25;
    tell_fabric(gpu, &fabric->fabric);
    fabric->mask = (number)setting("value", "fabric_mask", gpu, 0x2aa);
    return 0;
}
#endif
