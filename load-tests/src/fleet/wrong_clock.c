/* Preloaded: the clock on the wall is so many seconds off, as RECEIPTS_TEST_CLOCK_SHIFT_S says, or the 8 bytes of the file
   RECEIPTS_TEST_CLOCK_SHIFT_FILE, which may change. librdkafka makes deadlines for the kernel from gettimeofday, and they must stay
   right, so that function is left alone: under libfaketime, which shifts it too, it spins or sleeps for the shift. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t fixed_s;
static volatile int64_t *shift_s = &fixed_s;

__attribute__((constructor)) static void read_shift(void) {
    const char *text = getenv("RECEIPTS_TEST_CLOCK_SHIFT_S"), *path = getenv("RECEIPTS_TEST_CLOCK_SHIFT_FILE");
    if (text) fixed_s = atol(text);
    if (!path) return;
    int file = open(path, O_RDONLY);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof fixed_s, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) abort();
    close(file);
    shift_s = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += *shift_s;
    return failed;
}
