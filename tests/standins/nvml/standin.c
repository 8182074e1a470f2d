/*
 * A stand-in for NVIDIA's libnvidia-ml.so.1, for tests on machines without a GPU.
 *
 * It plays a scenario: each GPU follows a periodic, piecewise constant time-line that hangs on
 * CLOCK_BOOTTIME, so that several processes see the same GPU. Counters are exact integrals of it.
 * Agreement with this library proves plumbing and arithmetic; it says nothing about hardware.
 *
 * The scenario file is $OFU_NVML_SCENARIO, else `nvml-scenario` beside this library. Without one,
 * nvmlInit answers DRIVER_NOT_LOADED; with a faulty one it complains on stderr and answers UNKNOWN.
 * One `key value` a line, `#` starts a comment line, times are seconds of CLOCK_BOOTTIME, and
 * paths are relative to the scenario's directory. First come keys for the whole library:
 *
 *   driver_version 595.45.04      nvml_version 13.595.45.04
 *   control FILE                  read again at every call, see below
 *   calls_file FILE               at last shutdown and at exit one line is appended:
 *                                 `pid function count function count ...`, totals of the process
 *                                 so far; samples_allocated and samples_freed count what succeeded
 *   call_cost_us N                every call burns that much CPU time
 *   fault FUNCTION [option ...]   FUNCTION is a shell pattern; nvmlShutdown lets go all the same; options:
 *       device=N                  only calls about GPU N (in MetricsGet: the second sample's)
 *       from_s=T until_s=T        only while from_s <= time < until_s
 *       skip=N                    not the first N calls of the function
 *       error=CODE                answer CODE
 *       delay_us=N                answer that much later
 *       hang                      never answer; other threads go on
 *       cured_by_init             only until nvmlInit is called at or after from_s, and not in nvmlInit
 *       metric=ID                 error=CODE is that metric's own nvmlReturn in a successful MetricsGet
 *       nan, value=X              MetricsGet gives that value with SUCCESS (all metrics, or metric=ID)
 *
 * then `gpu` starts one GPU, in NVML index order, with its own keys (defaults in new_gpu below):
 *
 *   name NAME   uuid UUID   minor N   pci 00000000:1A:00.0   cores N   max_clock_mhz N
 *   architecture N   compute_capability MAJOR MINOR   memory_total_bytes N   memory_reserved_bytes N
 *   gpm 0|1                       0: QueryDeviceSupport says no, the rest NOT_SUPPORTED
 *   mig off|on|unsupported        on: device-level GPM is NO_PERMISSION; cores, utilisation NOT_SUPPORTED
 *   mig_monitor 0|1               1: with MIG on the caller may read device-level GPM, as with the capability
 *   mig_slots N                   how many slices there may be; GetMaxMigDeviceCount gives it where MIG is on
 *   mig_sms N                     SMs of an instance over all of the GPU (profile 7_SLICE); 0: NOT_SUPPORTED
 *   counters absolute|difference|absent    what ids 248, 249, 250 give: the second sample's counter
 *                                 (cycles since boot), second minus first, or an unknown id
 *   counter_scale N               1: counters per SM; number of SMs: summed over them
 *   counter_base N                added to each absolute counter
 *   unknown_metric_error CODE     nvmlReturn of an id that is not known (its value is 1e300)
 *   refresh_seconds S             GPM advances in steps of S (0: it is always up to date)
 *   clock_step_mhz N              clock readings are rounded to a multiple of N (0: to 1)
 *   device FILE                   opened from first init to last shutdown, as the driver's node is;
 *                                 where it cannot be opened, handle look-ups answer NO_PERMISSION
 *   lost_at_s T                   from then on everything about this GPU answers GPU_IS_LOST
 *   reset_at_s T                  counters and energy restart at 0 (may be repeated; gauges do not care)
 *   origin_s T                    when the first segment starts, modulo the period
 *   segment SECONDS [option ...]  one stretch of the period; what is not given is 0:
 *       sm_clock_mhz=F tensor_ratio=R sm_active_ratio=R dram_active_ratio=R utilisation_ratio=R
 *       power_watts=F memory_used_bytes=N throttle_reasons=MASK
 *       gated                     the SM clock stands still, whatever a reading of it says: no cycle elapses
 *
 * `slice` after that starts a MIG device of the GPU above, with its own keys and segments; the rest is its GPU's:
 *
 *   uuid UUID   profile NAME (as in 1g.10gb)   mig_index N   gpu_instance N   compute_instance N   sms N
 *   gpu_slices N   compute_slices N   counters absolute|difference|absent (absent unless told otherwise)
 *   memory_total_bytes N   memory_reserved_bytes N   segment ...
 *
 * A MIG handle answers what a real H100 was seen to answer: name, UUID, memory, attributes and ids, with
 * `slice_utilisation 1` utilisation as later drivers do; all else is NOT_SUPPORTED. Of a GPU instance with several compute instances, GPM gives the first one's
 * activity. A fault about GPU N holds for its slices too.
 *
 * The control file holds at most one time line and any number of further `fault` lines:
 *
 *   time real | time frozen T | time offset SECONDS
 *
 * GPM gauges 1 (utilisation), 2 (SM activity), 3 (half of it), 5 and 7 (tensor) are cycle-weighted,
 * integral of a*f over integral of f; 10 (DRAM) is time-weighted, because memory's clock is constant.
 * Where no time lies between the two samples (same sample, same refresh), gauges are NaN with SUCCESS.
 * Samples in the wrong order, of two GPUs, never filled or already freed: INVALID_ARGUMENT.
 *
 * Functions of nvml.h that are not defined here come as weak symbols from a generated file and
 * answer NOT_SUPPORTED. Results that are not valid are poisoned (1e300, 0xDEADBEEF).
 */
#define _GNU_SOURCE
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_GPUS 64
#define MAX_SLICES 64
#define MAX_RESETS 16
#define TEXT_BYTES 1024
#define POISON_DOUBLE 1e300
#define ANY (-1)

enum { SECONDS, SM_CYCLES, UTIL_CYCLES, ACTIVE_CYCLES, TENSOR_CYCLES, DRAM_SECONDS, JOULES, QUANTITIES };

struct integrals { long double of[QUANTITIES]; };

struct segment {
    int64_t ns;
    double clock_mhz, power_watts, utilisation, dram;
    unsigned long long memory_bytes, reasons;
    struct integrals per_second;
};

struct gpu {
    char name[TEXT_BYTES], uuid[TEXT_BYTES], pci[TEXT_BYTES], mig[TEXT_BYTES], counters[TEXT_BYTES];
    char compute_capability[TEXT_BYTES], device[TEXT_BYTES], profile[TEXT_BYTES];
    unsigned minor, cores, max_clock_mhz, architecture, gpm, clock_step_mhz, unknown_metric;
    unsigned slice_utilisation, mig_monitor, mig_slots, mig_sms, mig_index, gpu_instance, compute_instance, sms, gpu_slices, compute_slices;
    struct gpu *parent; /* NULL: not a slice */
    unsigned long long memory_total, memory_reserved;
    double counter_scale, counter_base;
    int64_t refresh_ns, origin_ns, lost_at_ns, period_ns, reset_at_ns[MAX_RESETS];
    unsigned resets;
    struct segment *segments;
    unsigned segment_count;
    int fd;
    bool forbidden;
};

struct fault {
    char function[128];
    int device, metric, error;
    int64_t from_ns, until_ns;
    unsigned long skip;
    double delay_us, value;
    bool hang, cured_by_init, has_value;
};

struct faults { struct fault *items; unsigned count; };

struct library {
    char driver_version[TEXT_BYTES], nvml_version[TEXT_BYTES], control[TEXT_BYTES], calls_file[TEXT_BYTES];
    char directory[TEXT_BYTES];
    double call_cost_us;
    struct gpu gpus[MAX_GPUS], slices[MAX_SLICES];
    unsigned gpu_count, slice_count;
    struct faults faults;
};

struct control { char text[16384]; bool frozen; int64_t time_ns; struct faults faults; };

struct nvmlGpmSample_st {
    struct nvmlGpmSample_st *next;
    struct gpu *gpu; /* NULL until filled */
    int64_t seen_ns;
    struct integrals gauges, counters;
};

struct function { const char *name; unsigned long calls; struct function *next; };

struct effect { int error; double delay_us, value; bool hang, has_value; };

struct call { struct gpu *gpu; int64_t now_ns; nvmlReturn_t status; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct library library;
static struct control control;
static nvmlReturn_t load_status = NVML_ERROR_UNINITIALIZED;
static unsigned init_count;
static int64_t last_init_ns = INT64_MIN;
static struct function *functions;
static struct nvmlGpmSample_st *live_samples;
static unsigned long samples_allocated, samples_freed, calls_made, calls_reported;

/* ---- reading the scenario ------------------------------------------------------------------ */

static bool complain(const char *where, unsigned line, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "nvml stand-in: %s:%u: ", where, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return false;
}

static bool read_double(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0';
}

static bool read_time(const char *text, int64_t *out_ns)
{
    double seconds;
    if (!read_double(text, &seconds) || !(fabs(seconds) < 9e9))
        return false;
    *out_ns = llrint(seconds * 1e9);
    return true;
}

static bool read_whole(const char *text, unsigned long long *out)
{
    char *end;
    *out = strtoull(text, &end, 0);
    return end != text && *end == '\0' && *text != '-';
}

enum kind { TEXT, WHOLE32, WHOLE64, NUMBER, TIME };

struct key { const char *name; enum kind kind; size_t offset; };

#define GPU(kind, name, field) {name, kind, offsetof(struct gpu, field)}
static const struct key gpu_keys[] = {
    GPU(TEXT, "name", name), GPU(TEXT, "uuid", uuid), GPU(TEXT, "pci", pci), GPU(TEXT, "mig", mig),
    GPU(TEXT, "counters", counters), GPU(TEXT, "compute_capability", compute_capability),
    GPU(TEXT, "device", device), GPU(TEXT, "profile", profile), GPU(WHOLE32, "minor", minor),
    GPU(WHOLE32, "slice_utilisation", slice_utilisation), GPU(WHOLE32, "mig_monitor", mig_monitor),
    GPU(WHOLE32, "mig_slots", mig_slots), GPU(WHOLE32, "mig_sms", mig_sms),
    GPU(WHOLE32, "mig_index", mig_index), GPU(WHOLE32, "gpu_instance", gpu_instance),
    GPU(WHOLE32, "compute_instance", compute_instance), GPU(WHOLE32, "sms", sms),
    GPU(WHOLE32, "gpu_slices", gpu_slices), GPU(WHOLE32, "compute_slices", compute_slices),
    GPU(WHOLE32, "cores", cores),
    GPU(WHOLE32, "max_clock_mhz", max_clock_mhz), GPU(WHOLE32, "architecture", architecture),
    GPU(WHOLE32, "gpm", gpm), GPU(WHOLE32, "clock_step_mhz", clock_step_mhz),
    GPU(WHOLE32, "unknown_metric_error", unknown_metric), GPU(WHOLE64, "memory_total_bytes", memory_total),
    GPU(WHOLE64, "memory_reserved_bytes", memory_reserved), GPU(NUMBER, "counter_scale", counter_scale),
    GPU(NUMBER, "counter_base", counter_base), GPU(TIME, "refresh_seconds", refresh_ns),
    GPU(TIME, "origin_s", origin_ns), GPU(TIME, "lost_at_s", lost_at_ns), {NULL, TEXT, 0}};

#define LIBRARY(kind, name) {#name, kind, offsetof(struct library, name)}
static const struct key library_keys[] = {
    LIBRARY(TEXT, driver_version), LIBRARY(TEXT, nvml_version), LIBRARY(TEXT, control),
    LIBRARY(TEXT, calls_file), LIBRARY(NUMBER, call_cost_us), {NULL, TEXT, 0}};

static bool store(void *field, enum kind kind, const char *value)
{
    unsigned long long whole;
    switch (kind) {
    case TEXT: return snprintf(field, TEXT_BYTES, "%s", value) < TEXT_BYTES;
    case NUMBER: return read_double(value, field);
    case TIME: return read_time(value, field);
    case WHOLE64: return read_whole(value, field);
    case WHOLE32:
        if (!read_whole(value, &whole) || whole > UINT32_MAX)
            return false;
        *(unsigned *)field = (unsigned)whole;
        return true;
    }
    return false;
}

static bool store_key(const struct key *keys, void *record, const char *name, const char *value)
{
    for (; keys->name != NULL; keys++)
        if (strcmp(keys->name, name) == 0)
            return store((char *)record + keys->offset, keys->kind, value);
    return false;
}

static struct gpu *new_gpu(void)
{
    unsigned index = library.gpu_count++;
    struct gpu *gpu = &library.gpus[index];
    *gpu = (struct gpu){
        .name = "NVIDIA H100 80GB HBM3", .mig = "off", .counters = "absolute",
        .compute_capability = "9 0", .minor = index, .cores = 132 * 128, .max_clock_mhz = 1980,
        .architecture = NVML_DEVICE_ARCH_HOPPER, .gpm = 1, .unknown_metric = NVML_ERROR_NOT_SUPPORTED,
        .memory_total = 85520809984ULL, .memory_reserved = 524288000ULL, .counter_scale = 1,
        .lost_at_ns = INT64_MAX, .fd = -1, .mig_slots = 7, .mig_sms = 132};
    snprintf(gpu->uuid, TEXT_BYTES, "GPU-00000000-0000-4000-8000-%012x", index);
    snprintf(gpu->pci, TEXT_BYTES, "00000000:%02X:00.0", 0x18 + index);
    return gpu;
}

static struct gpu *new_slice(struct gpu *latest)
{
    struct gpu *parent = latest->parent != NULL ? latest->parent : latest;
    struct gpu *slice = &library.slices[library.slice_count++];
    *slice = *parent;
    slice->parent = parent;
    slice->segments = NULL;
    slice->segment_count = slice->mig_sms = 0;
    slice->period_ns = 0;
    slice->device[0] = '\0';
    slice->gpu_slices = slice->compute_slices = 1;
    snprintf(slice->mig, TEXT_BYTES, "off");
    snprintf(slice->counters, TEXT_BYTES, "absent");
    return slice;
}

/* Splits `name=value`; a bare word has the value "1". */
static const char *option_value(char *word)
{
    char *equals = strchr(word, '=');
    if (equals == NULL)
        return "1";
    *equals = '\0';
    return equals + 1;
}

static bool segment_option(struct segment *segment, double *tensor, double *sm, double *running,
                           const char *name, const char *value)
{
    if (strcmp(name, "gated") == 0) { *running = 0; return true; }
    if (strcmp(name, "tensor_ratio") == 0) return read_double(value, tensor);
    if (strcmp(name, "sm_active_ratio") == 0) return read_double(value, sm);
    if (strcmp(name, "sm_clock_mhz") == 0) return read_double(value, &segment->clock_mhz);
    if (strcmp(name, "dram_active_ratio") == 0) return read_double(value, &segment->dram);
    if (strcmp(name, "power_watts") == 0) return read_double(value, &segment->power_watts);
    if (strcmp(name, "utilisation_ratio") == 0) return read_double(value, &segment->utilisation);
    if (strcmp(name, "memory_used_bytes") == 0) return read_whole(value, &segment->memory_bytes);
    if (strcmp(name, "throttle_reasons") == 0) return read_whole(value, &segment->reasons);
    return false;
}

static bool add_segment(struct gpu *gpu, char *text)
{
    struct segment segment = {.ns = 0};
    double tensor = 0, sm = 0, running = 1;
    char *rest = NULL, *word = strtok_r(text, " ", &rest);
    if (word == NULL || !read_time(word, &segment.ns) || segment.ns <= 0)
        return false;
    while ((word = strtok_r(NULL, " ", &rest)) != NULL) {
        const char *value = option_value(word);
        if (!segment_option(&segment, &tensor, &sm, &running, word, value))
            return false;
    }
    long double hertz = (long double)segment.clock_mhz * running * 1e6L;
    segment.per_second = (struct integrals){{
        [SECONDS] = 1, [SM_CYCLES] = hertz, [UTIL_CYCLES] = segment.utilisation * hertz,
        [ACTIVE_CYCLES] = sm * hertz, [TENSOR_CYCLES] = tensor * hertz,
        [DRAM_SECONDS] = segment.dram, [JOULES] = segment.power_watts}};
    gpu->segments = realloc(gpu->segments, (gpu->segment_count + 1) * sizeof segment);
    gpu->segments[gpu->segment_count++] = segment;
    gpu->period_ns += segment.ns;
    return true;
}

static bool fault_option(struct fault *fault, const char *name, const char *value)
{
    double number;
    if (strcmp(name, "from_s") == 0) return read_time(value, &fault->from_ns);
    if (strcmp(name, "until_s") == 0) return read_time(value, &fault->until_ns);
    if (strcmp(name, "hang") == 0) return fault->hang = true;
    if (strcmp(name, "cured_by_init") == 0) return fault->cured_by_init = true;
    if (strcmp(name, "nan") == 0) { fault->value = NAN; return fault->has_value = true; }
    if (strcmp(name, "value") == 0) return fault->has_value = read_double(value, &fault->value);
    if (!read_double(value, &number)) return false;
    if (strcmp(name, "device") == 0) fault->device = (int)number;
    else if (strcmp(name, "metric") == 0) fault->metric = (int)number;
    else if (strcmp(name, "error") == 0) fault->error = (int)number;
    else if (strcmp(name, "skip") == 0) fault->skip = (unsigned long)number;
    else if (strcmp(name, "delay_us") == 0) fault->delay_us = number;
    else return false;
    return true;
}

static bool add_fault(struct faults *faults, char *text)
{
    struct fault fault = {.device = ANY, .metric = ANY, .from_ns = INT64_MIN, .until_ns = INT64_MAX};
    char *rest = NULL, *word = strtok_r(text, " ", &rest);
    int size = sizeof fault.function;
    if (word == NULL || snprintf(fault.function, size, "%s", word) >= size)
        return false;
    while ((word = strtok_r(NULL, " ", &rest)) != NULL) {
        const char *value = option_value(word);
        if (!fault_option(&fault, word, value))
            return false;
    }
    faults->items = realloc(faults->items, (faults->count + 1) * sizeof fault);
    faults->items[faults->count++] = fault;
    return true;
}

static bool add_reset(struct gpu *gpu, const char *value)
{
    return gpu->resets < MAX_RESETS && read_time(value, &gpu->reset_at_ns[gpu->resets++]);
}

static bool one_of(const char *word, const char *a, const char *b, const char *c)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

/* `gpu` is the GPU whose keys are being read, NULL before the first one. */
static bool read_line(struct gpu **gpu, char *line)
{
    char *value = strchr(line, ' ');
    if (value != NULL)
        *value++ = '\0';
    if (strcmp(line, "gpu") == 0)
        return library.gpu_count < MAX_GPUS && (*gpu = new_gpu()) != NULL;
    if (strcmp(line, "slice") == 0)
        return *gpu != NULL && library.slice_count < MAX_SLICES && (*gpu = new_slice(*gpu)) != NULL;
    if (value == NULL)
        return false;
    if (*gpu == NULL)
        return strcmp(line, "fault") == 0 ? add_fault(&library.faults, value)
                                          : store_key(library_keys, &library, line, value);
    if (strcmp(line, "segment") == 0) return add_segment(*gpu, value);
    if (strcmp(line, "reset_at_s") == 0) return add_reset(*gpu, value);
    return store_key(gpu_keys, *gpu, line, value);
}

static bool check_gpus(const char *path)
{
    for (unsigned i = 0; i < library.gpu_count; i++) {
        const struct gpu *gpu = &library.gpus[i];
        if (gpu->segment_count == 0)
            return complain(path, 0, "GPU %u has no segment", i);
        if (!one_of(gpu->mig, "off", "on", "unsupported"))
            return complain(path, 0, "mig %s", gpu->mig);
        if (!one_of(gpu->counters, "absolute", "difference", "absent"))
            return complain(path, 0, "counters %s", gpu->counters);
    }
    for (unsigned i = 0; i < library.slice_count; i++)
        if (library.slices[i].segment_count == 0)
            return complain(path, 0, "slice %u has no segment", i);
    return true;
}

static bool read_scenario(FILE *file, const char *path)
{
    struct gpu *gpu = NULL;
    char *line = NULL;
    size_t size = 0;
    bool good = true;
    for (unsigned number = 1; good && getline(&line, &size, file) >= 0; number++) {
        line[strcspn(line, "\r\n")] = '\0';
        char *copy = line[0] == '\0' || line[0] == '#' ? NULL : strdup(line);
        if (copy != NULL && !read_line(&gpu, copy))
            good = complain(path, number, "cannot read `%s`", line);
        free(copy);
    }
    free(line);
    return good && check_gpus(path);
}

static void find_scenario(char path[TEXT_BYTES])
{
    const char *named = getenv("OFU_NVML_SCENARIO");
    Dl_info info;
    if (named != NULL && *named != '\0') {
        snprintf(path, TEXT_BYTES, "%s", named);
    } else if (dladdr((void *)find_scenario, &info) && strchr(info.dli_fname, '/')) {
        int directory = (int)(strrchr(info.dli_fname, '/') - info.dli_fname);
        snprintf(path, TEXT_BYTES, "%.*s/nvml-scenario", directory, info.dli_fname);
    } else {
        snprintf(path, TEXT_BYTES, "nvml-scenario");
    }
}

static void make_absolute(char path[TEXT_BYTES])
{
    char relative[TEXT_BYTES];
    if (path[0] == '\0' || path[0] == '/')
        return;
    memcpy(relative, path, TEXT_BYTES);
    if (snprintf(path, TEXT_BYTES, "%s/%s", library.directory, relative) >= TEXT_BYTES)
        complain(relative, 0, "path too long");
}

static nvmlReturn_t load(void)
{
    char path[TEXT_BYTES];
    find_scenario(path);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    char *real = realpath(path, NULL);
    if (real != NULL)
        snprintf(library.directory, TEXT_BYTES, "%.*s", (int)(strrchr(real, '/') - real), real);
    free(real);
    snprintf(library.driver_version, TEXT_BYTES, "595.45.04");
    snprintf(library.nvml_version, TEXT_BYTES, "13.595.45.04");
    bool good = read_scenario(file, path);
    fclose(file);
    make_absolute(library.control);
    make_absolute(library.calls_file);
    for (unsigned i = 0; i < library.gpu_count; i++)
        make_absolute(library.gpus[i].device);
    return good ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

/* ---- time and control ---------------------------------------------------------------------- */

static void read_control_line(char *line)
{
    int64_t time_ns;
    if (line[0] == '\0' || line[0] == '#' || strcmp(line, "time real") == 0)
        return;
    if (strncmp(line, "time frozen ", 12) == 0 && read_time(line + 12, &time_ns)) {
        control.frozen = true;
        control.time_ns = time_ns;
    } else if (strncmp(line, "time offset ", 12) == 0 && read_time(line + 12, &time_ns)) {
        control.time_ns = time_ns;
    } else if (strncmp(line, "fault ", 6) != 0 || !add_fault(&control.faults, line + 6)) {
        complain(library.control, 0, "cannot read `%s`", line);
    }
}

/* The whole file is compared, not its times: two writes may fall into one tick of the file system. */
static void refresh_control(void)
{
    char text[sizeof control.text];
    int fd = library.control[0] == '\0' ? -1 : open(library.control, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length < 0 ? 0 : length] = '\0';
    if (strcmp(text, control.text) == 0)
        return;
    memcpy(control.text, text, sizeof text);
    control.frozen = false;
    control.time_ns = 0;
    control.faults.count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        read_control_line(line);
}

static int64_t library_time_ns(void)
{
    struct timespec now;
    refresh_control();
    if (control.frozen)
        return control.time_ns;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec + control.time_ns;
}

/* ---- integrals of the time-line ------------------------------------------------------------ */

static int64_t phase_ns(const struct gpu *gpu, int64_t at_ns, int64_t *periods)
{
    int64_t since = at_ns - gpu->origin_ns;
    *periods = since / gpu->period_ns - (since % gpu->period_ns < 0);
    return since - *periods * gpu->period_ns;
}

static const struct segment *segment_at(const struct gpu *gpu, int64_t at_ns)
{
    int64_t periods, phase = phase_ns(gpu, at_ns, &periods);
    const struct segment *segment = gpu->segments;
    for (; phase >= segment->ns; segment++)
        phase -= segment->ns;
    return segment;
}

static void add_time(struct integrals *sum, const struct segment *segment, long double seconds)
{
    for (int i = 0; i < QUANTITIES; i++)
        sum->of[i] += segment->per_second.of[i] * seconds;
}

/* From the GPU's origin to at_ns; negative before it. */
static struct integrals since_origin(const struct gpu *gpu, int64_t at_ns)
{
    struct integrals sum = {{0}};
    int64_t periods, phase = phase_ns(gpu, at_ns, &periods);
    for (unsigned i = 0; i < gpu->segment_count; i++) {
        const struct segment *segment = &gpu->segments[i];
        int64_t part = phase < segment->ns ? phase : segment->ns;
        add_time(&sum, segment, (long double)periods * segment->ns / 1e9L + part / 1e9L);
        phase -= part;
    }
    return sum;
}

static struct integrals between(const struct gpu *gpu, int64_t from_ns, int64_t to_ns)
{
    struct integrals start = since_origin(gpu, from_ns), sum = since_origin(gpu, to_ns);
    for (int i = 0; i < QUANTITIES; i++)
        sum.of[i] -= start.of[i];
    return sum;
}

/* What a counter has seen at at_ns: everything since boot or since the latest reset. */
static struct integrals since_reset(const struct gpu *gpu, int64_t at_ns)
{
    int64_t start_ns = 0;
    for (unsigned i = 0; i < gpu->resets; i++)
        if (gpu->reset_at_ns[i] <= at_ns && gpu->reset_at_ns[i] > start_ns)
            start_ns = gpu->reset_at_ns[i];
    return between(gpu, start_ns, at_ns);
}

/* ---- calls, their faults and their count --------------------------------------------------- */

static bool is_cured(const struct fault *fault, const char *function)
{
    return fault->cured_by_init && (last_init_ns >= fault->from_ns || strncmp(function, "nvmlInit", 8) == 0);
}

static unsigned long calls_of(const char *name)
{
    for (struct function *function = functions; function != NULL; function = function->next)
        if (strcmp(function->name, name) == 0)
            return function->calls;
    return 0;
}

static bool fault_holds(const struct fault *fault, const char *function, int device, int64_t now_ns)
{
    return (fault->device == ANY || fault->device == device) && now_ns >= fault->from_ns
        && now_ns < fault->until_ns && !is_cured(fault, function)
        && (fault->skip == 0 || calls_of(function) > fault->skip)
        && fnmatch(fault->function, function, 0) == 0;
}

static void combine(struct effect *effect, const struct faults *faults, const char *function, int device,
                    int metric, int64_t now_ns)
{
    for (unsigned i = 0; i < faults->count; i++) {
        const struct fault *fault = &faults->items[i];
        bool about_metric = fault->metric != ANY || fault->has_value;
        bool meant = about_metric ? metric != ANY && (fault->metric == ANY || fault->metric == metric)
                                  : metric == ANY;
        if (!meant || !fault_holds(fault, function, device, now_ns))
            continue;
        effect->delay_us += fault->delay_us;
        effect->hang |= fault->hang;
        if (effect->error == 0)
            effect->error = fault->error;
        if (fault->has_value) {
            effect->has_value = true;
            effect->value = fault->value;
        }
    }
}

static struct effect effect_of(const char *function, int device, int metric, int64_t now_ns)
{
    struct effect effect = {.error = 0};
    combine(&effect, &library.faults, function, device, metric, now_ns);
    combine(&effect, &control.faults, function, device, metric, now_ns);
    return effect;
}

static void burn(double microseconds)
{
    struct timespec start, now;
    if (!(microseconds > 0))
        return;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1e6 + (now.tv_nsec - start.tv_nsec) / 1e3 < microseconds);
}

static void rest(double microseconds)
{
    struct timespec left = {(time_t)(microseconds / 1e6), (long)(fmod(microseconds, 1e6) * 1e3)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static void count_call(struct function *self)
{
    if (self->calls++ == 0) {
        self->next = functions;
        functions = self;
    }
    calls_made++;
}

/* Every call comes through here; device is ANY where the call is about none. */
static struct call begin_uninitialised(struct function *self, int device)
{
    struct call call = {.status = NVML_SUCCESS};
    pthread_mutex_lock(&lock);
    count_call(self);
    struct effect effect = {.error = 0};
    if (load_status == NVML_SUCCESS)
        effect = effect_of(self->name, device, ANY, library_time_ns());
    double cost_us = library.call_cost_us;
    pthread_mutex_unlock(&lock);
    burn(cost_us);
    while (effect.hang)
        pause();
    if (effect.delay_us > 0)
        rest(effect.delay_us);
    pthread_mutex_lock(&lock);
    call.now_ns = library_time_ns();
    call.status = (nvmlReturn_t)effect.error;
    pthread_mutex_unlock(&lock);
    return call;
}

static struct call begin(struct function *self, int device)
{
    struct call call = begin_uninitialised(self, device);
    if (init_count == 0)
        call.status = NVML_ERROR_UNINITIALIZED;
    return call;
}

static int index_of(const struct gpu *gpu)
{
    return gpu == NULL ? ANY : (int)((gpu->parent != NULL ? gpu->parent : gpu) - library.gpus);
}

static bool answers_for_slice(const struct gpu *slice, const char *function)
{
    static const char *const names[] = {
        "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetAttributes_v2", "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetComputeInstanceId", "nvmlDeviceIsMigDeviceHandle",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(function, names[i]) == 0)
            return true;
    return slice->slice_utilisation && strcmp(function, "nvmlDeviceGetUtilizationRates") == 0;
}

/* gpu is NULL where the caller named none that exists; error says how. */
static struct call begin_gpu(struct function *self, struct gpu *gpu, nvmlReturn_t error)
{
    struct call call = begin(self, index_of(gpu));
    call.gpu = gpu;
    if (call.status == NVML_SUCCESS && gpu == NULL)
        call.status = error;
    if (call.status == NVML_SUCCESS && gpu->parent != NULL && !answers_for_slice(gpu, self->name))
        call.status = NVML_ERROR_NOT_SUPPORTED;
    if (call.status == NVML_SUCCESS && call.now_ns >= gpu->lost_at_ns)
        call.status = NVML_ERROR_GPU_IS_LOST;
    return call;
}

static struct gpu *gpu_of(nvmlDevice_t device)
{
    struct gpu *gpu = (struct gpu *)(void *)device;
    for (unsigned i = 0; i < library.gpu_count; i++)
        if (gpu == &library.gpus[i])
            return gpu;
    for (unsigned i = 0; i < library.slice_count; i++)
        if (gpu == &library.slices[i])
            return gpu;
    return NULL;
}

static nvmlReturn_t refuse(nvmlReturn_t status, void *out, size_t size)
{
    static const unsigned char poison[] = {0xEF, 0xBE, 0xAD, 0xDE};
    for (size_t i = 0; out != NULL && i < size; i++)
        ((unsigned char *)out)[i] = poison[i % sizeof poison];
    return status == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : status;
}

#define SELF static struct function self = {.name = __func__}
#define BEGIN(out)                                                                                      \
    SELF;                                                                                               \
    struct call call = begin(&self, ANY);                                                               \
    if (call.status != NVML_SUCCESS || (out) == NULL)                                                   \
        return refuse(call.status, out, sizeof *(out))
#define BEGIN_GPU(gpu_expression, error, out)                                                           \
    SELF;                                                                                               \
    struct call call = begin_gpu(&self, gpu_expression, error);                                         \
    if (call.status != NVML_SUCCESS || (out) == NULL)                                                   \
        return refuse(call.status, out, sizeof *(out))
#define BEGIN_DEVICE(out) BEGIN_GPU(gpu_of(device), NVML_ERROR_INVALID_ARGUMENT, out)
/* For structs whose version field the caller has filled in. */
#define BEGIN_VERSIONED(out)                                                                            \
    SELF;                                                                                               \
    struct call call = begin_gpu(&self, gpu_of(device), NVML_ERROR_INVALID_ARGUMENT);                   \
    if (call.status != NVML_SUCCESS || (out) == NULL)                                                   \
        return refuse(call.status, NULL, 0)

nvmlReturn_t standin_unsupported(const char *name)
{
    pthread_mutex_lock(&lock);
    struct function *self = functions;
    while (self != NULL && strcmp(self->name, name) != 0)
        self = self->next;
    if (self == NULL) {
        self = calloc(1, sizeof *self);
        self->name = name;
    }
    pthread_mutex_unlock(&lock);
    struct call call = begin(self, ANY);
    return call.status == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : call.status;
}

/* Called with the lock held; one write, so that lines of several processes do not mix. */
static void report_calls(void)
{
    char *line = NULL;
    size_t size = 0;
    if (library.calls_file[0] == '\0' || calls_reported == calls_made)
        return;
    FILE *stream = open_memstream(&line, &size);
    fprintf(stream, "%ld", (long)getpid());
    for (struct function *function = functions; function != NULL; function = function->next)
        fprintf(stream, " %s %lu", function->name, function->calls);
    fprintf(stream, " samples_allocated %lu samples_freed %lu\n", samples_allocated, samples_freed);
    fclose(stream);
    int fd = open(library.calls_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line, size) != (ssize_t)size)
        complain(library.calls_file, 0, "cannot append");
    if (fd >= 0)
        close(fd);
    free(line);
    calls_reported = calls_made;
}

__attribute__((destructor)) static void at_exit(void)
{
    report_calls(); /* no lock: a thread that hangs for ever must not stop the exit */
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

static void in_child(void)
{
    for (struct function *function = functions; function != NULL; function = function->next)
        function->calls = 0;
    functions = NULL;
    samples_allocated = samples_freed = calls_made = calls_reported = 0;
    after_fork();
}

__attribute__((constructor)) static void at_load(void) { pthread_atfork(before_fork, after_fork, in_child); }

/* ---- init, shutdown, versions -------------------------------------------------------------- */

static void open_devices(void)
{
    for (unsigned i = 0; i < library.gpu_count; i++) {
        struct gpu *gpu = &library.gpus[i];
        if (gpu->device[0] == '\0' || gpu->fd >= 0)
            continue;
        gpu->fd = open(gpu->device, O_RDWR | O_CLOEXEC);
        gpu->forbidden = gpu->fd < 0;
    }
}

static void close_devices(void)
{
    for (unsigned i = 0; i < library.gpu_count; i++) {
        if (library.gpus[i].fd >= 0)
            close(library.gpus[i].fd);
        library.gpus[i].fd = -1;
    }
}

static nvmlReturn_t initialise(struct function *self, unsigned flags)
{
    pthread_mutex_lock(&lock);
    if (load_status == NVML_ERROR_UNINITIALIZED)
        load_status = load();
    pthread_mutex_unlock(&lock);
    struct call call = begin_uninitialised(self, ANY);
    if (load_status != NVML_SUCCESS)
        return load_status;
    if (call.status != NVML_SUCCESS)
        return call.status;
    pthread_mutex_lock(&lock);
    init_count++;
    last_init_ns = call.now_ns;
    if (!(flags & NVML_INIT_FLAG_NO_ATTACH))
        open_devices();
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void) { SELF; return initialise(&self, 0); }
nvmlReturn_t nvmlInit_v2(void) { SELF; return initialise(&self, 0); }
nvmlReturn_t nvmlInitWithFlags(unsigned int flags) { SELF; return initialise(&self, flags); }

/* It lets go even where a fault makes it answer an error: a test must be able to end. */
nvmlReturn_t nvmlShutdown(void)
{
    SELF;
    struct call call = begin(&self, ANY);
    pthread_mutex_lock(&lock);
    if (init_count > 0 && --init_count == 0) {
        close_devices();
        report_calls();
    }
    pthread_mutex_unlock(&lock);
    return call.status;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power",
        "Driver Not Loaded", "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found",
        "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
        "GPU access blocked by the operating system", "Driver/library version mismatch",
        "In use by another client"};
    return (size_t)result < sizeof texts / sizeof *texts ? texts[result] : "Unknown Error";
}

static nvmlReturn_t give_text(char *out, unsigned length, const char *text)
{
    return snprintf(out, length, "%s", text) < (int)length ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    BEGIN(version);
    return give_text(version, length, library.driver_version);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    BEGIN(version);
    return give_text(version, length, library.nvml_version);
}

/* ---- identity ------------------------------------------------------------------------------ */

static nvmlReturn_t give_handle(const struct call *call, nvmlDevice_t *device)
{
    const struct gpu *whole = call->gpu->parent != NULL ? call->gpu->parent : call->gpu;
    if (whole->forbidden)
        return refuse(NVML_ERROR_NO_PERMISSION, device, sizeof *device);
    *device = (nvmlDevice_t)(void *)call->gpu;
    return NVML_SUCCESS;
}

static struct gpu *gpu_by_uuid(const char *uuid)
{
    for (unsigned i = 0; uuid != NULL && i < library.gpu_count; i++)
        if (strcmp(library.gpus[i].uuid, uuid) == 0)
            return &library.gpus[i];
    for (unsigned i = 0; uuid != NULL && i < library.slice_count; i++)
        if (strcmp(library.slices[i].uuid, uuid) == 0)
            return &library.slices[i];
    return NULL;
}

struct address { unsigned domain, bus, device; };

static struct address address_of(const char *text)
{
    struct address address = {0, 0, 0};
    sscanf(text, "%x:%x:%x", &address.domain, &address.bus, &address.device);
    return address;
}

static struct gpu *gpu_by_address(const char *text)
{
    struct address wanted = address_of(text == NULL ? "" : text);
    for (unsigned i = 0; text != NULL && i < library.gpu_count; i++) {
        struct address own = address_of(library.gpus[i].pci);
        if (memcmp(&own, &wanted, sizeof own) == 0)
            return &library.gpus[i];
    }
    return NULL;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
    BEGIN(deviceCount);
    *deviceCount = library.gpu_count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    BEGIN_GPU(index < library.gpu_count ? &library.gpus[index] : NULL, NVML_ERROR_INVALID_ARGUMENT, device);
    return give_handle(&call, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    BEGIN_GPU(gpu_by_uuid(uuid), NVML_ERROR_NOT_FOUND, device);
    return give_handle(&call, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
    BEGIN_GPU(gpu_by_address(pciBusId), NVML_ERROR_NOT_FOUND, device);
    return give_handle(&call, device);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    BEGIN_DEVICE(name);
    char full[2 * TEXT_BYTES + 8];
    const char *profile = call.gpu->profile;
    snprintf(full, sizeof full, profile[0] ? "%s MIG %s" : "%s", call.gpu->name, profile);
    return give_text(name, length, full);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    BEGIN_DEVICE(uuid);
    return give_text(uuid, length, call.gpu->uuid);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    BEGIN_DEVICE(index);
    *index = (unsigned)(call.gpu - library.gpus);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber)
{
    BEGIN_DEVICE(minorNumber);
    *minorNumber = call.gpu->minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    BEGIN_DEVICE(pci);
    struct address at = address_of(call.gpu->pci);
    *pci = (nvmlPciInfo_t){.domain = at.domain, .bus = at.bus, .device = at.device};
    pci->pciDeviceId = 0x233010DE;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", at.domain, at.bus & 0xFF, at.device & 0xFF);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", at.domain & 0xFFFF, at.bus & 0xFF,
             at.device & 0xFF);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch)
{
    BEGIN_DEVICE(arch);
    *arch = call.gpu->architecture;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    BEGIN_DEVICE(major);
    if (minor == NULL || sscanf(call.gpu->compute_capability, "%d %d", major, minor) != 2)
        return refuse(NVML_SUCCESS, minor, sizeof *minor);
    return NVML_SUCCESS;
}

static bool has_mig(const struct gpu *gpu) { return strcmp(gpu->mig, "on") == 0; }

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *numCores)
{
    BEGIN_DEVICE(numCores);
    if (has_mig(call.gpu))
        return refuse(NVML_ERROR_NOT_SUPPORTED, numCores, sizeof *numCores);
    *numCores = call.gpu->cores;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode, unsigned int *pendingMode)
{
    BEGIN_DEVICE(currentMode);
    if (pendingMode == NULL)
        return refuse(NVML_ERROR_INVALID_ARGUMENT, currentMode, sizeof *currentMode);
    if (strcmp(call.gpu->mig, "unsupported") == 0)
        return refuse(NVML_ERROR_NOT_SUPPORTED, currentMode, sizeof *currentMode);
    *currentMode = *pendingMode = has_mig(call.gpu);
    return NVML_SUCCESS;
}

/* ---- MIG ----------------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    BEGIN_DEVICE(count);
    *count = has_mig(call.gpu) ? call.gpu->mig_slots : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *migDevice)
{
    BEGIN_DEVICE(migDevice);
    if (!has_mig(call.gpu))
        return refuse(NVML_ERROR_NOT_SUPPORTED, migDevice, sizeof *migDevice);
    if (index >= call.gpu->mig_slots)
        return refuse(NVML_ERROR_INVALID_ARGUMENT, migDevice, sizeof *migDevice);
    for (unsigned i = 0; i < library.slice_count; i++)
        if (library.slices[i].parent == call.gpu && library.slices[i].mig_index == index) {
            *migDevice = (nvmlDevice_t)(void *)&library.slices[i];
            return NVML_SUCCESS;
        }
    return refuse(NVML_ERROR_NOT_FOUND, migDevice, sizeof *migDevice);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice)
{
    BEGIN_DEVICE(isMigDevice);
    *isMigDevice = call.gpu->parent != NULL;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t *device)
{
    BEGIN_GPU(gpu_of(migDevice), NVML_ERROR_INVALID_ARGUMENT, device);
    if (call.gpu->parent == NULL)
        return refuse(NVML_ERROR_INVALID_ARGUMENT, device, sizeof *device);
    *device = (nvmlDevice_t)(void *)call.gpu->parent;
    return NVML_SUCCESS;
}

static nvmlReturn_t give_id(const struct call *call, unsigned id, unsigned *out)
{
    if (call->gpu->parent == NULL)
        return refuse(NVML_ERROR_NOT_SUPPORTED, out, sizeof *out);
    *out = id;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    BEGIN_DEVICE(id);
    return give_id(&call, call.gpu->gpu_instance, id);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    BEGIN_DEVICE(id);
    return give_id(&call, call.gpu->compute_instance, id);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    BEGIN_DEVICE(attributes);
    if (call.gpu->parent == NULL)
        return refuse(NVML_ERROR_NOT_SUPPORTED, attributes, sizeof *attributes);
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = call.gpu->sms, .gpuInstanceSliceCount = call.gpu->gpu_slices,
        .computeInstanceSliceCount = call.gpu->compute_slices, .memorySizeMB = call.gpu->memory_total >> 20};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
                                                 nvmlGpuInstanceProfileInfo_t *info)
{
    BEGIN_DEVICE(info);
    if (!has_mig(call.gpu) || call.gpu->mig_sms == 0 || profile != NVML_GPU_INSTANCE_PROFILE_7_SLICE)
        return refuse(NVML_ERROR_NOT_SUPPORTED, info, sizeof *info);
    *info = (nvmlGpuInstanceProfileInfo_t){.sliceCount = 7, .multiprocessorCount = call.gpu->mig_sms};
    return NVML_SUCCESS;
}

/* ---- readings at an instant ---------------------------------------------------------------- */

static nvmlReturn_t give_clock(const struct call *call, nvmlClockType_t type, unsigned *out)
{
    double step = call->gpu->clock_step_mhz > 0 ? call->gpu->clock_step_mhz : 1;
    if (type >= NVML_CLOCK_COUNT)
        return refuse(NVML_ERROR_INVALID_ARGUMENT, out, sizeof *out);
    if (type == NVML_CLOCK_MEM)
        *out = 2619;
    else
        *out = (unsigned)(rint(segment_at(call->gpu, call->now_ns)->clock_mhz / step) * step);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
    BEGIN_DEVICE(clock);
    return give_clock(&call, type, clock);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t clockType, nvmlClockId_t clockId,
                                unsigned int *clockMHz)
{
    BEGIN_DEVICE(clockMHz);
    if (clockId == NVML_CLOCK_ID_CURRENT)
        return give_clock(&call, clockType, clockMHz);
    nvmlReturn_t status = clockId == NVML_CLOCK_ID_CUSTOMER_BOOST_MAX ? NVML_ERROR_NOT_SUPPORTED
                                                                     : NVML_ERROR_DEPRECATED;
    return refuse(status, clockMHz, sizeof *clockMHz);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
    BEGIN_DEVICE(clock);
    if (type >= NVML_CLOCK_COUNT)
        return refuse(NVML_ERROR_INVALID_ARGUMENT, clock, sizeof *clock);
    *clock = type == NVML_CLOCK_MEM ? 2619 : call.gpu->max_clock_mhz;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    BEGIN_DEVICE(utilization);
    if (has_mig(call.gpu))
        return refuse(NVML_ERROR_NOT_SUPPORTED, utilization, sizeof *utilization);
    const struct segment *segment = segment_at(call.gpu, call.now_ns);
    utilization->gpu = (unsigned)rint(100 * segment->utilisation);
    utilization->memory = (unsigned)rint(100 * segment->dram);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power)
{
    BEGIN_DEVICE(power);
    *power = (unsigned)rint(1000 * segment_at(call.gpu, call.now_ns)->power_watts);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy)
{
    BEGIN_DEVICE(energy);
    *energy = (unsigned long long)(1000 * since_reset(call.gpu, call.now_ns).of[JOULES]);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    BEGIN_DEVICE(memory);
    memory->total = call.gpu->memory_total;
    memory->used = segment_at(call.gpu, call.now_ns)->memory_bytes + call.gpu->memory_reserved;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    BEGIN_VERSIONED(memory);
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = call.gpu->memory_total;
    memory->reserved = call.gpu->memory_reserved;
    memory->used = segment_at(call.gpu, call.now_ns)->memory_bytes;
    memory->free = memory->total - memory->used - memory->reserved;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long *clocksEventReasons)
{
    BEGIN_DEVICE(clocksEventReasons);
    *clocksEventReasons = segment_at(call.gpu, call.now_ns)->reasons;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long *clocksThrottleReasons)
{
    BEGIN_DEVICE(clocksThrottleReasons);
    *clocksThrottleReasons = segment_at(call.gpu, call.now_ns)->reasons;
    return NVML_SUCCESS;
}

/* ---- GPM ----------------------------------------------------------------------------------- */

static nvmlReturn_t gpm_access(const struct gpu *gpu)
{
    if (!gpu->gpm)
        return NVML_ERROR_NOT_SUPPORTED;
    return has_mig(gpu) && !gpu->mig_monitor ? NVML_ERROR_NO_PERMISSION : NVML_SUCCESS;
}

static bool is_live(nvmlGpmSample_t sample)
{
    pthread_mutex_lock(&lock);
    const struct nvmlGpmSample_st *live = live_samples;
    while (live != NULL && live != sample)
        live = live->next;
    pthread_mutex_unlock(&lock);
    return live != NULL;
}

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *gpmSupport)
{
    BEGIN_VERSIONED(gpmSupport);
    if (gpmSupport->version != NVML_GPM_SUPPORT_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    gpmSupport->isSupportedDevice = call.gpu->gpm;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *gpmSample)
{
    BEGIN(gpmSample);
    nvmlGpmSample_t sample = calloc(1, sizeof *sample);
    if (sample == NULL)
        return refuse(NVML_ERROR_MEMORY, gpmSample, sizeof *gpmSample);
    pthread_mutex_lock(&lock);
    sample->next = live_samples;
    live_samples = sample;
    samples_allocated++;
    pthread_mutex_unlock(&lock);
    *gpmSample = sample;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t gpmSample)
{
    SELF;
    struct call call = begin(&self, ANY);
    if (call.status != NVML_SUCCESS || gpmSample == NULL)
        return refuse(call.status, NULL, 0);
    pthread_mutex_lock(&lock);
    struct nvmlGpmSample_st **link = &live_samples;
    while (*link != NULL && *link != gpmSample)
        link = &(*link)->next;
    bool live = *link != NULL;
    if (live) {
        *link = gpmSample->next;
        samples_freed++;
        free(gpmSample);
    }
    pthread_mutex_unlock(&lock);
    return live ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t take_sample(struct gpu *gpu, int64_t now_ns, nvmlGpmSample_t sample)
{
    if (gpu == NULL || !is_live(sample))
        return NVML_ERROR_INVALID_ARGUMENT;
    int64_t step_ns = gpu->refresh_ns > 0 ? gpu->refresh_ns : 1;
    sample->gpu = gpu;
    sample->seen_ns = now_ns - now_ns % step_ns;
    sample->gauges = since_origin(gpu, sample->seen_ns);
    sample->counters = since_reset(gpu, sample->seen_ns);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t gpmSample)
{
    SELF;
    struct call call = begin_gpu(&self, gpu_of(device), NVML_ERROR_INVALID_ARGUMENT);
    if (call.status == NVML_SUCCESS)
        call.status = gpm_access(call.gpu);
    return call.status == NVML_SUCCESS ? take_sample(call.gpu, call.now_ns, gpmSample) : call.status;
}

static struct gpu *slice_by_instance(const struct gpu *parent, unsigned gpu_instance)
{
    for (unsigned i = 0; i < library.slice_count; i++)
        if (library.slices[i].parent == parent && library.slices[i].gpu_instance == gpu_instance)
            return &library.slices[i];
    return NULL;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpuInstanceId, nvmlGpmSample_t gpmSample)
{
    SELF;
    struct call call = begin_gpu(&self, gpu_of(device), NVML_ERROR_INVALID_ARGUMENT);
    if (call.status == NVML_SUCCESS && (!call.gpu->gpm || !has_mig(call.gpu)))
        call.status = NVML_ERROR_NOT_SUPPORTED;
    if (call.status != NVML_SUCCESS)
        return call.status;
    return take_sample(slice_by_instance(call.gpu, gpuInstanceId), call.now_ns, gpmSample);
}

/* 0/0 where no time lies between the samples: NaN, as the driver may give. */
static double per_cent(nvmlGpmSample_t a, nvmlGpmSample_t b, int part, int whole)
{
    long double active = b->gauges.of[part] - a->gauges.of[part];
    return (double)(100 * active / (b->gauges.of[whole] - a->gauges.of[whole]));
}

static double counter(nvmlGpmSample_t a, nvmlGpmSample_t b, int quantity)
{
    const struct gpu *gpu = b->gpu;
    if (strcmp(gpu->counters, "difference") == 0)
        return (double)((b->counters.of[quantity] - a->counters.of[quantity]) * gpu->counter_scale);
    return (double)(b->counters.of[quantity] * gpu->counter_scale + gpu->counter_base);
}

static nvmlReturn_t metric_value(nvmlGpmSample_t a, nvmlGpmSample_t b, unsigned id, double *value)
{
    bool counted = strcmp(b->gpu->counters, "absent") != 0;
    if (id == 1)
        *value = per_cent(a, b, UTIL_CYCLES, SM_CYCLES);
    else if (id == 2)
        *value = per_cent(a, b, ACTIVE_CYCLES, SM_CYCLES);
    else if (id == 3)
        *value = per_cent(a, b, ACTIVE_CYCLES, SM_CYCLES) / 2;
    else if (id == 5 || id == 7)
        *value = per_cent(a, b, TENSOR_CYCLES, SM_CYCLES);
    else if (id == 10)
        *value = per_cent(a, b, DRAM_SECONDS, SECONDS);
    else if (counted && id == 248)
        *value = counter(a, b, SM_CYCLES);
    else if (counted && id == 249)
        *value = counter(a, b, ACTIVE_CYCLES);
    else if (counted && id == 250)
        *value = counter(a, b, TENSOR_CYCLES);
    else
        return (nvmlReturn_t)b->gpu->unknown_metric;
    return NVML_SUCCESS;
}

static void fill_metric(const struct call *call, nvmlGpmMetricsGet_t *get, nvmlGpmMetric_t *metric)
{
    pthread_mutex_lock(&lock);
    struct effect effect = effect_of("nvmlGpmMetricsGet", index_of(call->gpu), (int)metric->metricId, call->now_ns);
    pthread_mutex_unlock(&lock);
    metric->nvmlReturn = (nvmlReturn_t)effect.error;
    if (effect.error == 0)
        metric->nvmlReturn = metric_value(get->sample1, get->sample2, metric->metricId, &metric->value);
    if (metric->nvmlReturn != NVML_SUCCESS)
        metric->value = POISON_DOUBLE;
    else if (effect.has_value)
        metric->value = effect.value;
}

static nvmlReturn_t check_samples(const nvmlGpmMetricsGet_t *get)
{
    if (get->version != NVML_GPM_METRICS_GET_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!is_live(get->sample1) || !is_live(get->sample2) || get->sample1->gpu == NULL
        || get->sample1->gpu != get->sample2->gpu || get->sample1->seen_ns > get->sample2->seen_ns)
        return NVML_ERROR_INVALID_ARGUMENT;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *metricsGet)
{
    SELF;
    struct gpu *gpu = metricsGet != NULL && is_live(metricsGet->sample2) ? metricsGet->sample2->gpu : NULL;
    struct call call = begin(&self, index_of(gpu));
    call.gpu = gpu;
    if (metricsGet == NULL || metricsGet->numMetrics > NVML_GPM_METRIC_MAX)
        return refuse(call.status, NULL, 0);
    if (call.status == NVML_SUCCESS)
        call.status = check_samples(metricsGet);
    for (unsigned i = 0; i < metricsGet->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &metricsGet->metrics[i];
        metric->value = POISON_DOUBLE;
        if (call.status == NVML_SUCCESS)
            fill_metric(&call, metricsGet, metric);
    }
    return call.status;
}
