/*
 * A stand-in for libcudart and libcublasLt: the functions that benchmarks/gpu/cuda_libraries.py uses, with
 * the signatures of CUDA's headers. (With -DWITH_CUDA_HEADERS and the headers of CUDA 12 or 13 the compiler
 * holds them against the real ones; the tests do without.)
 *
 * It multiplies nothing. A product takes the time that a GPU of $OFU_CUDA_STANDIN_TFLOPS (default 100) needs.
 * What is wrong with a call is answered as the real libraries would, or worse: operands that do not fit
 * together, memory outside of what was allocated, a missing workspace, an odd FP8 side.
 * $CUBLASLT_LOG_FILE gets a line in the form of cuBLASLt's trace for each product.
 */
#define _GNU_SOURCE
#ifdef WITH_CUDA_HEADERS
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#else
#include <stddef.h>
#include <stdint.h>
typedef enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorStreamCaptureInvalidated = 901 } cudaError_t;
typedef enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_NOT_SUPPORTED = 15 } cublasStatus_t;
typedef enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14, CUDA_R_8F_E4M3 = 28 } cudaDataType, cudaDataType_t;
typedef enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 } cublasComputeType_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum { CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4, CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25 } cublasLtMatmulDescAttributes_t;
typedef enum { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1 } cublasLtMatmulPreferenceAttributes_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76 };
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct { uint64_t data[8]; } cublasLtMatrixLayoutOpaque_t, *cublasLtMatrixLayout_t;
typedef struct { uint64_t data[32]; } cublasLtMatmulDescOpaque_t, *cublasLtMatmulDesc_t;
typedef struct { uint64_t data[8]; } cublasLtMatmulPreferenceOpaque_t, *cublasLtMatmulPreference_t;
typedef struct { uint64_t data[8]; } cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_BUFFERS 64
#define ALGORITHM 0x5eed

struct CUstream_st { double busy_until; int capturing; double captured; };
struct CUevent_st { double at; };
struct CUgraph_st { double seconds; };
struct CUgraphExec_st { double seconds; };
struct cublasLtContext { int unused; };

static struct { uintptr_t start; size_t size; int filled; } buffers[MOST_BUFFERS];
static uintptr_t next_address = 0x7f0000000000;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void sleep_until(double then)
{
    double left = then - now();
    if (left > 0) {
        struct timespec time = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        nanosleep(&time, NULL);
    }
}

/* The buffer that holds size bytes from an address, or -1. */
static int buffer_of(const void *address, size_t size)
{
    uintptr_t start = (uintptr_t)address;
    for (int i = 0; i < MOST_BUFFERS; i++)
        if (buffers[i].size && start >= buffers[i].start && start + size <= buffers[i].start + buffers[i].size)
            return i;
    return -1;
}

/* ---- runtime ------------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count) { *count = getenv("OFU_CUDA_STANDIN_NONE") ? 0 : 1; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { *version = 13000; return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) { *version = 13000; return cudaSuccess; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
const char *cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaErrorInvalidValue"; }

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    *value = attribute == cudaDevAttrMultiProcessorCount ? 132 : attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return device == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMalloc(void **address, size_t size)
{
    for (int i = 0; i < MOST_BUFFERS; i++)
        if (!buffers[i].size) {
            buffers[i].start = next_address;
            buffers[i].size = size;
            buffers[i].filled = 0;
            next_address += (size + 0xffffff) & ~(uintptr_t)0xfffff;
            *address = (void *)buffers[i].start;
            return cudaSuccess;
        }
    return cudaErrorInvalidValue;
}

cudaError_t cudaFree(void *address)
{
    int i = buffer_of(address, 1);
    if (i < 0 || buffers[i].start != (uintptr_t)address)
        return cudaErrorInvalidValue;
    buffers[i].size = 0;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    int i = buffer_of(to, size);
    if (i < 0 || kind != cudaMemcpyHostToDevice || from == NULL)
        return cudaErrorInvalidValue;
    buffers[i].filled = 1;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    *stream = calloc(1, sizeof **stream);
    return flags == 1 ? cudaSuccess : cudaErrorInvalidValue;
}

/* From here on the GPU never rests between launches, however late the program is with them: only so is its
 * rate the known one on a machine that is busy with other things. */
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    sleep_until(stream->busy_until);
    stream->busy_until = now();
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    if (getenv("OFU_CUDA_STANDIN_NO_GRAPHS") || mode != cudaStreamCaptureModeThreadLocal)
        return cudaErrorInvalidValue;
    stream->capturing = 1;
    stream->captured = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    stream->capturing = 0;
    *graph = malloc(sizeof **graph);
    (*graph)->seconds = stream->captured;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)
{
    *executable = malloc(sizeof **executable);
    (*executable)->seconds = graph->seconds;
    return flags == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

static void take(cudaStream_t stream, double seconds)
{
    stream->busy_until += seconds;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    take(stream, executable->seconds);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { free(graph); return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { free(executable); return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    *event = calloc(1, sizeof **event);
    return flags == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) { free(event); return cudaSuccess; }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->at = stream->busy_until;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) { sleep_until(event->at); return cudaSuccess; }

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    *milliseconds = (float)((end->at - start->at) * 1000);
    return end->at > now() ? cudaErrorInvalidValue : cudaSuccess;
}

/* ---- cuBLASLt ------------------------------------------------------------------------------ */

/* An operation: compute type, A transposed, B transposed, fast accumulation. A layout: type, rows, columns, step. */
enum { COMPUTE, TRANS_A, TRANS_B, FAST };
enum { TYPE, ROWS, COLUMNS, STEP };

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) { *handle = calloc(1, sizeof **handle); return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation, cublasComputeType_t compute, cudaDataType_t scale)
{
    *operation = calloc(1, sizeof **operation);
    (*operation)->data[COMPUTE] = compute;
    return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t size)
{
    if (size != (attribute == CUBLASLT_MATMUL_DESC_FAST_ACCUM ? 1 : 4))
        return CUBLAS_STATUS_INVALID_VALUE;
    switch ((int)attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: operation->data[TRANS_A] = (uint64_t)*(const int32_t *)value; break;
    case CUBLASLT_MATMUL_DESC_TRANSB: operation->data[TRANS_B] = (uint64_t)*(const int32_t *)value; break;
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: operation->data[FAST] = (uint64_t)*(const int8_t *)value; break;
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) { free(operation); return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t step)
{
    *layout = calloc(1, sizeof **layout);
    (*layout)->data[TYPE] = type;
    (*layout)->data[ROWS] = rows;
    (*layout)->data[COLUMNS] = columns;
    (*layout)->data[STEP] = (uint64_t)step;
    return (uint64_t)step >= rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { free(layout); return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = calloc(1, sizeof **preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void *value, size_t size)
{
    if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES || size != 8)
        return CUBLAS_STATUS_INVALID_VALUE;
    preference->data[0] = *(const uint64_t *)value;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { free(preference); return CUBLAS_STATUS_SUCCESS; }

static size_t bytes_of(uint64_t type) { return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2; }

/* op(A) is M x K, op(B) is K x N, D is M x N, in types that go together. */
static int fits(const uint64_t *operation, const uint64_t *a, const uint64_t *b, const uint64_t *d)
{
    int is_fp8 = a[TYPE] == CUDA_R_8F_E4M3;
    if (operation[TRANS_A] != CUBLAS_OP_T || operation[TRANS_B] != CUBLAS_OP_N)
        return 0;
    if (a[ROWS] != b[ROWS] || a[COLUMNS] != d[ROWS] || b[COLUMNS] != d[COLUMNS] || a[TYPE] != b[TYPE])
        return 0;
    if (operation[COMPUTE] != (a[TYPE] == CUDA_R_32F ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F))
        return 0;
    return d[TYPE] == (is_fp8 ? CUDA_R_16BF : a[TYPE]) && operation[FAST] == (uint64_t)is_fp8;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t results[], int *found)
{
    *found = 0;
    if (handle == NULL || c != d || wanted != 1 || preference->data[0] == 0 || !fits(operation->data, a->data, b->data, d->data))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (a->data[TYPE] == CUDA_R_8F_E4M3 && (a->data[ROWS] % 16 || d->data[ROWS] % 16))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(results, 0, sizeof *results);
    results[0].algo.data[0] = ALGORITHM;
    results[0].workspaceSize = preference->data[0];
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static void trace(const uint64_t *d)
{
    const char *path = getenv("CUBLASLT_LOG_FILE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "[cublasLt][1][Trace][cublasLtMatmul] Ddesc=[rows=%llu cols=%llu] algo=[algoId=66 "
            "tile=MATMUL_TILE_%s stages=MATMUL_STAGES_64xAUTO clusterShape=CLUSTER_SHAPE_2x1x1] workSpace=0X0\n",
            (unsigned long long)d[ROWS], (unsigned long long)d[COLUMNS], d[ROWS] < 1024 ? "64x64" : "128x256");
    fclose(file);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *A, cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta, const void *C, cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_size, cudaStream_t stream)
{
    const char *tflops = getenv("OFU_CUDA_STANDIN_TFLOPS");
    size_t m = d->data[ROWS], n = d->data[COLUMNS], k = a->data[ROWS];
    int at_a = buffer_of(A, m * k * bytes_of(a->data[TYPE])), at_b = buffer_of(B, n * k * bytes_of(b->data[TYPE]));
    int good = handle != NULL && *(const float *)alpha == 1.0f && *(const float *)beta == 0.0f && C == D && c == d;
    good = good && fits(operation->data, a->data, b->data, d->data) && algorithm->data[0] == ALGORITHM;
    good = good && at_a >= 0 && at_b >= 0 && at_a != at_b && buffers[at_a].filled && buffers[at_b].filled;
    good = good && buffer_of(D, m * n * bytes_of(d->data[TYPE])) >= 0 && buffer_of(workspace, workspace_size) >= 0;
    if (!good)
        return CUBLAS_STATUS_INVALID_VALUE;
    double seconds = 2.0 * (double)m * (double)n * (double)k / ((tflops ? atof(tflops) : 100.0) * 1e12);
    trace(d->data);
    if (stream->capturing)
        stream->captured += seconds;
    else
        take(stream, seconds);
    return CUBLAS_STATUS_SUCCESS;
}
