#define _GNU_SOURCE
#include "include/cprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <wchar.h>

int32_t cprocess_free_beginning(int32_t descriptor, int64_t length) {
    return fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, length) < 0 ? -errno : 0;
}

/// The locale whose wcwidth(3) knows Unicode: that of the process may be "C", which knows ASCII alone.
static locale_t unicode;

static void make_locale(void) { unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0); }

int32_t cprocess_columns(uint32_t character) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_locale);
    if (unicode == (locale_t)0) { return -1; }
    // Changes this thread alone (uselocale(3)).
    const locale_t before = uselocale(unicode);
    const int columns = wcwidth((wchar_t)character);
    uselocale(before);
    return columns;
}

void cprocess_limit_arenas(int32_t most) {
    if (getenv("MALLOC_ARENA_MAX") == NULL) { mallopt(M_ARENA_MAX, most); }
}
