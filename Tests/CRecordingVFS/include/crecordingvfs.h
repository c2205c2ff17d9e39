// Reports the writes of SQLite, so that a test can tell what a disk holds after a power failure.
#ifndef CRECORDINGVFS_H
#define CRECORDINGVFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __clang__
#define _Nonnull
#define _Nullable
#endif

/// The kind of an operation.
typedef enum {
    /// Opens a file, and creates it if it is missing.
    CRECORDINGVFS_OPEN,
    CRECORDINGVFS_WRITE,
    CRECORDINGVFS_TRUNCATE,
    CRECORDINGVFS_SYNC,
    CRECORDINGVFS_DELETE
} crecordingvfs_kind;

/// An operation that has succeeded.
typedef struct {
    crecordingvfs_kind kind;
    /// The name of the file, without its directory.
    const char *_Nonnull name;
    /// The place of a write, or the size after truncation.
    int64_t offset;
    /// The bytes of a write.
    const void *_Nullable bytes;
    size_t length;
    /// True if the directory was synchronized, too.
    bool syncs_directory;
} crecordingvfs_operation;

typedef void (*crecordingvfs_observer)(void *_Nonnull context, const crecordingvfs_operation *_Nonnull operation);

/// Reports the operations on database files that are opened in a directory from now on. Other files are not affected.
///
/// The observer is called on the thread of the operation, one call at a time. Returns 0, or a negative errno.
int32_t crecordingvfs_begin(const char *_Nonnull directory, crecordingvfs_observer _Nonnull observer, void *_Nonnull context);

/// Ends the reports of an observer's context. No call of it is running afterwards.
void crecordingvfs_end(void *_Nonnull context);

#endif
