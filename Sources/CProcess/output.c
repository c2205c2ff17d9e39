#define _GNU_SOURCE
#include "include/cprocess.h"

#include <errno.h>
#include <fcntl.h>

int32_t cprocess_free_beginning(int32_t descriptor, int64_t length) {
    return fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, length) < 0 ? -errno : 0;
}
