// Stamps in shared memory: writing one costs a clock reading and a store, and wakes no thread.
#define _GNU_SOURCE
#include "cbench.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CAPACITY (1u << 16)

struct bench_stamps {
    _Atomic uint64_t count;
    _Atomic int view;
    int64_t times[CAPACITY];
};

int32_t bench_stamps_create(void) {
    const int descriptor = memfd_create("stamps", 0);
    if (descriptor < 0) { return -errno; }
    if (ftruncate(descriptor, sizeof(bench_stamps)) < 0) {
        const int error = errno;
        close(descriptor);
        return -error;
    }
    return descriptor;
}

bench_stamps *bench_stamps_map(int32_t descriptor) {
    void *memory = mmap(NULL, sizeof(bench_stamps), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void bench_stamps_unmap(bench_stamps *stamps) {
    if (stamps != NULL) { munmap(stamps, sizeof *stamps); }
}

bench_stamps *bench_stamps_inherited(void) {
    const char *text = getenv(BENCH_STAMPS_VARIABLE);
    bench_stamps *stamps = text == NULL ? NULL : bench_stamps_map(atoi(text));
    if (stamps == NULL) {
        fputs("a peer of the benchmark; it is started by `bench`\n", stderr);
        exit(64);
    }
    return stamps;
}

void bench_stamp(bench_stamps *stamps) {
    const int64_t now = bench_now();
    const uint64_t position = atomic_load_explicit(&stamps->count, memory_order_relaxed);
    stamps->times[position % CAPACITY] = now;
    atomic_store_explicit(&stamps->count, position + 1, memory_order_release);
}

uint64_t bench_stamps_count(const bench_stamps *stamps) { return atomic_load_explicit(&stamps->count, memory_order_acquire); }

int64_t bench_stamps_first(const bench_stamps *stamps, uint64_t position, int64_t time) {
    const uint64_t end = bench_stamps_count(stamps);
    for (uint64_t index = position; index < end; index++) {
        if (stamps->times[index % CAPACITY] >= time) { return stamps->times[index % CAPACITY]; }
    }
    return 0;
}

void bench_set_view(bench_stamps *stamps, bench_view view) { atomic_store(&stamps->view, (int)view); }

bench_view bench_get_view(const bench_stamps *stamps) { return (bench_view)atomic_load(&stamps->view); }
