// The least time in which a file in the page cache can be counted: newlines by AVX2 in two threads, over windows that are
// mapped, then over pieces that are read. Prints the best of so many passes of each.
//
//     gcc -O3 -march=native -pthread benchmarks/count_floor.c -o count_floor && ./count_floor FILE [PASSES]
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 16 << 20, PIECE = 256 << 10 };

static int file, reads;
static size_t size, next;
static unsigned long lines;

static unsigned long count(const char *bytes, size_t len) {
    const __m256i newline = _mm256_set1_epi8('\n'), zero = _mm256_setzero_si256();
    __m256i sums = zero;
    size_t i = 0;
    while (i + 32 <= len) {
        __m256i seen = zero;
        // Counters of a byte each hold 255.
        for (int n = 0; n < 255 && i + 32 <= len; n++, i += 32)
            seen = _mm256_sub_epi8(seen, _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(bytes + i)), newline));
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(seen, zero));
    }
    unsigned long parts[4], rest = 0;
    for (; i < len; i++) rest += bytes[i] == '\n';
    _mm256_storeu_si256((void *)parts, sums);
    return rest + parts[0] + parts[1] + parts[2] + parts[3];
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void *work(void *unused) {
    (void)unused;
    unsigned long found = 0;
    char *piece = malloc(PIECE);
    for (size_t at; (at = __sync_fetch_and_add(&next, WINDOW)) < size;) {
        size_t len = size - at < WINDOW ? size - at : WINDOW;
        if (reads) {
            for (size_t done = 0; done < len;) {
                ssize_t got = pread(file, piece, len - done < PIECE ? len - done : PIECE, at + done);
                if (got <= 0) fail("read");
                found += count(piece, got);
                done += got;
            }
        } else {
            char *window = mmap(NULL, len, PROT_READ, MAP_SHARED, file, at);
            if (window == MAP_FAILED) fail("mmap");
            found += count(window, len);
            munmap(window, len);
        }
    }
    free(piece);
    __sync_fetch_and_add(&lines, found);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2 || (file = open(argv[1], O_RDONLY)) < 0) fail("usage: count_floor FILE [PASSES]");
    struct stat facts;
    fstat(file, &facts);
    size = facts.st_size;
    int passes = argc > 2 ? atoi(argv[2]) : 15;
    for (reads = 0; reads < 2; reads++) {
        double best = 1e9;
        for (int pass = 0; pass < passes; pass++) {
            struct timespec from, to;
            pthread_t threads[2];
            next = lines = 0;
            clock_gettime(CLOCK_MONOTONIC, &from);
            for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, NULL);
            for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
            clock_gettime(CLOCK_MONOTONIC, &to);
            double ms = (to.tv_sec - from.tv_sec) * 1e3 + (to.tv_nsec - from.tv_nsec) / 1e6;
            if (ms < best) best = ms;
        }
        printf("%s: %.1f ms, %lu lines, %.1f GB/s\n", reads ? "read" : "mapped", best, lines, size / best / 1e6);
    }
}
