// Child processes, terminals and memory: calls that Swift cannot make, because they are variadic (prctl), hidden (fallocate,
// mallopt, wcwidth) or run code between fork and exec.
#ifndef CPROCESS_H
#define CPROCESS_H

#include <stdbool.h>
#include <stdint.h>

#ifndef __clang__
#define _Nonnull
#define _Nullable
#endif

/// The most descriptors of `cprocess_start.descriptors`.
#define CPROCESS_MAX_DESCRIPTORS 8

/// The start of a child.
typedef struct {
    /// The candidate files, ended by NULL: the first executable one is used.
    const char *_Nullable const *_Nonnull files;
    /// The arguments, starting with the child's name for itself, ended by NULL.
    char *_Nullable const *_Nonnull arguments;
    /// True if the child leads a new process group instead of staying in the caller's.
    bool has_own_group;
    /// The child's soft limit of open files (RLIMIT_NOFILE).
    uint64_t open_files;
    /// The caller's descriptors that the child gets as 0, 1, 2 and so on; NULL leaves it the standard ones.
    const int32_t *_Nullable descriptors;
    /// Their number.
    int32_t descriptor_count;
    /// The child's environment, ended by NULL; NULL leaves it the caller's.
    char *_Nullable const *_Nullable environment;
    /// The child's mask of the modes of new files (umask(2)); -1 leaves it the caller's.
    int32_t file_mode_mask;
} cprocess_start;

/// Starts a child with the given descriptors and no other open file. It has an empty signal mask; signals that the caller handles,
/// and SIGCHLD, SIGPIPE and SIGXFSZ, have their default action; the others are unchanged.
///
/// Returns its process number, or a negative errno: of the fork or, selected as in execvp(3), of the exec. `failed` is then the
/// index of the file that could not be executed, or -1.
int32_t cprocess_spawn(const cprocess_start *_Nonnull start, int32_t *_Nonnull failed);

/// Makes this process the parent of its orphaned descendants (PR_SET_CHILD_SUBREAPER). Returns 0 or a negative errno.
int32_t cprocess_become_subreaper(void);

/// Frees the first bytes of a file: they read as zeros, and the size stays. Returns 0 or a negative errno; EOPNOTSUPP on a file
/// system without holes.
int32_t cprocess_free_beginning(int32_t descriptor, int64_t length);

/// Returns the number of columns of a character on a terminal (wcwidth(3)), in UTF-8 whatever the process's locale; -1 if it is
/// unknown or not printable.
int32_t cprocess_columns(uint32_t character);

/// Lets all threads share a number of arenas (mallopt(3)), if the environment does not set one (MALLOC_ARENA_MAX). To be called
/// before there are other threads.
void cprocess_limit_arenas(int32_t most);

#endif
