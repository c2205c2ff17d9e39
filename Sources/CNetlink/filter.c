// The socket filter.
#define _GNU_SOURCE
#include "internal.h"

#include <linux/filter.h>

_Static_assert(sizeof(cnl_instruction) == sizeof(struct sock_filter)
    && offsetof(cnl_instruction, code) == offsetof(struct sock_filter, code)
    && offsetof(cnl_instruction, if_true) == offsetof(struct sock_filter, jt)
    && offsetof(cnl_instruction, if_false) == offsetof(struct sock_filter, jf)
    && offsetof(cnl_instruction, operand) == offsetof(struct sock_filter, k),
    "the kernel is given the instructions as they are");

int32_t cnl_set_filter(int32_t descriptor, const cnl_instruction *instructions, size_t count) {
    if (count == 0) {
        const int ignored = 0;
        // ENOENT: there was none.
        return setsockopt(descriptor, SOL_SOCKET, SO_DETACH_FILTER, &ignored, sizeof ignored) < 0 && errno != ENOENT
            ? -errno : 0;
    }
    if (count > BPF_MAXINSNS) { return -EINVAL; }
    // The kernel copies the instructions and takes them as not const.
    const struct sock_fprog program = { .len = (unsigned short)count, .filter = (struct sock_filter *)instructions };
    return setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0 ? -errno : 0;
}
