// Tells the thread sanitizer about the slow paths of Swift's Mutex.
//
// Mutex.withLock is compiled into its caller, and the sanitizer sees the atomic operations of its fast path. A contended lock goes
// through _lockSlow and _unlockSlow, futex(2) calls inside libswiftSynchronization, which is not instrumented: the sanitizer
// would take everything that such a lock protects for a race. Preloaded, these definitions stand before the library's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define TRY_LOCK_SLOW "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"

// Absent in processes that are not instrumented, such as `swift test` itself.
__attribute__((weak)) void __tsan_acquire(void *address);
__attribute__((weak)) void __tsan_release(void *address);

#define SELF __attribute__((swift_context)) void *handle

__attribute__((swiftcall)) void lock_slow(uint32_t thread, SELF) __asm__(LOCK_SLOW);
__attribute__((swiftcall)) void unlock_slow(SELF) __asm__(UNLOCK_SLOW);
__attribute__((swiftcall)) bool try_lock_slow(SELF) __asm__(TRY_LOCK_SLOW);

__attribute__((swiftcall)) void lock_slow(uint32_t thread, SELF) {
    static __attribute__((swiftcall)) void (*real)(uint32_t, SELF);
    if (!real) { real = (__typeof__(real))dlsym(RTLD_NEXT, LOCK_SLOW); }
    real(thread, handle);
    if (__tsan_acquire) { __tsan_acquire(handle); }
}

__attribute__((swiftcall)) void unlock_slow(SELF) {
    static __attribute__((swiftcall)) void (*real)(SELF);
    if (!real) { real = (__typeof__(real))dlsym(RTLD_NEXT, UNLOCK_SLOW); }
    if (__tsan_release) { __tsan_release(handle); }
    real(handle);
}

__attribute__((swiftcall)) bool try_lock_slow(SELF) {
    static __attribute__((swiftcall)) bool (*real)(SELF);
    if (!real) { real = (__typeof__(real))dlsym(RTLD_NEXT, TRY_LOCK_SLOW); }
    bool is_locked = real(handle);
    if (is_locked && __tsan_acquire) { __tsan_acquire(handle); }
    return is_locked;
}
