/* Preloaded: the clock on the wall is so many seconds off. librdkafka makes deadlines for the kernel from gettimeofday, and they
   must stay right, so that function is left alone: under libfaketime, which shifts it too, it spins or sleeps for the shift. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long shift_s;

__attribute__((constructor)) static void read_shift(void) {
    const char *text = getenv("RECEIPTS_TEST_CLOCK_SHIFT_S");
    shift_s = text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += shift_s;
    return failed;
}
