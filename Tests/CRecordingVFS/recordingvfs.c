// A VFS of SQLite on top of the default one. It becomes the default itself, because GRDB has no option for it: files outside of
// the recorded directories are opened by the VFS below, and never come here again.
//
// Shared memory (the WAL-index) and locks are passed through unrecorded: they end with the power.
#include "include/crecordingvfs.h"

// Without the trait SQLite there is no libsqlite3 to link.
#ifdef RECORDS_SQLITE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RECORDINGS = 64 };

struct recording {
    char directory[PATH_MAX];
    size_t length;
    crecordingvfs_observer observer;
    /// Null while the entry is free.
    void *context;
};

/// A file of a recorded directory; the file of the VFS below follows it.
struct file {
    sqlite3_file base;
    void *context;
    const char *name;
    bool syncs_directory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct recording recordings[MOST_RECORDINGS];
static sqlite3_vfs *below;
static sqlite3_vfs recording_vfs;

static sqlite3_file *inner(sqlite3_file *file) { return (sqlite3_file *)((struct file *)file + 1); }

static void report(void *context, crecordingvfs_operation operation) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_RECORDINGS; i++) {
        if (recordings[i].context == context) { recordings[i].observer(context, &operation); }
    }
    pthread_mutex_unlock(&lock);
}

/// Returns the context of a path's directory, or null; sets the name of the file.
static void *find(const char *path, const char **name) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!slash) { return NULL; }
    *name = slash + 1;
    void *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_RECORDINGS; i++) {
        struct recording *one = &recordings[i];
        if (one->context && one->length == (size_t)(slash - path) && !memcmp(one->directory, path, one->length)) {
            found = one->context;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

// MARK: Files

static int close_file(sqlite3_file *file) { return inner(file)->pMethods->xClose(inner(file)); }

static int read_file(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
    return inner(file)->pMethods->xRead(inner(file), bytes, count, offset);
}

static int write_file(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    struct file *own = (struct file *)file;
    int code = inner(file)->pMethods->xWrite(inner(file), bytes, count, offset);
    if (code == SQLITE_OK) {
        report(
            own->context, (crecordingvfs_operation){.kind = CRECORDINGVFS_WRITE, .name = own->name, .offset = offset,
                                                    .bytes = bytes, .length = (size_t)count});
    }
    return code;
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 size) {
    struct file *own = (struct file *)file;
    int code = inner(file)->pMethods->xTruncate(inner(file), size);
    if (code == SQLITE_OK) {
        report(own->context, (crecordingvfs_operation){.kind = CRECORDINGVFS_TRUNCATE, .name = own->name, .offset = size});
    }
    return code;
}

static int sync_file(sqlite3_file *file, int flags) {
    struct file *own = (struct file *)file;
    int code = inner(file)->pMethods->xSync(inner(file), flags);
    if (code == SQLITE_OK) {
        // The first sync of a new journal or log synchronizes its directory (UNIXFILE_DIRSYNC of os_unix.c).
        report(
            own->context,
            (crecordingvfs_operation){.kind = CRECORDINGVFS_SYNC, .name = own->name, .syncs_directory = own->syncs_directory});
        own->syncs_directory = false;
    }
    return code;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size) { return inner(file)->pMethods->xFileSize(inner(file), size); }

static int lock_file(sqlite3_file *file, int level) { return inner(file)->pMethods->xLock(inner(file), level); }

static int unlock_file(sqlite3_file *file, int level) { return inner(file)->pMethods->xUnlock(inner(file), level); }

static int check_reserved_lock(sqlite3_file *file, int *result) {
    return inner(file)->pMethods->xCheckReservedLock(inner(file), result);
}

static int file_control(sqlite3_file *file, int operation, void *argument) {
    return inner(file)->pMethods->xFileControl(inner(file), operation, argument);
}

static int sector_size(sqlite3_file *file) { return inner(file)->pMethods->xSectorSize(inner(file)); }

static int characteristics(sqlite3_file *file) { return inner(file)->pMethods->xDeviceCharacteristics(inner(file)); }

static int map_memory(sqlite3_file *file, int page, int size, int extends, void volatile **result) {
    return inner(file)->pMethods->xShmMap(inner(file), page, size, extends, result);
}

static int lock_memory(sqlite3_file *file, int offset, int count, int flags) {
    return inner(file)->pMethods->xShmLock(inner(file), offset, count, flags);
}

static void memory_barrier(sqlite3_file *file) { inner(file)->pMethods->xShmBarrier(inner(file)); }

static int unmap_memory(sqlite3_file *file, int deletes) { return inner(file)->pMethods->xShmUnmap(inner(file), deletes); }

// Version 2: without xFetch, no page is mapped.
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = file_size,
    .xLock = lock_file,
    .xUnlock = unlock_file,
    .xCheckReservedLock = check_reserved_lock,
    .xFileControl = file_control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
    .xShmMap = map_memory,
    .xShmLock = lock_memory,
    .xShmBarrier = memory_barrier,
    .xShmUnmap = unmap_memory,
};

// MARK: The VFS

static int open_file(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out) {
    (void)vfs;
    const char *name = NULL;
    void *context = find(path, &name);
    if (!context) { return below->xOpen(below, path, file, flags, out); }
    struct file *own = (struct file *)file;
    memset(own, 0, sizeof *own);
    int code = below->xOpen(below, path, inner(file), flags, out);
    if (code != SQLITE_OK) { return code; }
    own->base.pMethods = &methods;
    own->context = context;
    own->name = name;
    if (flags & SQLITE_OPEN_CREATE) {
        own->syncs_directory = flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL);
        report(context, (crecordingvfs_operation){.kind = CRECORDINGVFS_OPEN, .name = name});
    }
    return code;
}

static int delete_file(sqlite3_vfs *vfs, const char *path, int syncs_directory) {
    (void)vfs;
    const char *name = NULL;
    void *context = find(path, &name);
    int code = below->xDelete(below, path, syncs_directory);
    if (context && code == SQLITE_OK) {
        report(
            context,
            (crecordingvfs_operation){.kind = CRECORDINGVFS_DELETE, .name = name, .syncs_directory = syncs_directory != 0});
    }
    return code;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void install(void) {
    below = sqlite3_vfs_find(NULL);
    if (!below) { return; }
    recording_vfs = *below;
    recording_vfs.pNext = NULL;
    recording_vfs.zName = "crecordingvfs";
    recording_vfs.szOsFile = (int)sizeof(struct file) + below->szOsFile;
    recording_vfs.xOpen = open_file;
    recording_vfs.xDelete = delete_file;
    if (sqlite3_vfs_register(&recording_vfs, 1) != SQLITE_OK) { below = NULL; }
}

int32_t crecordingvfs_begin(const char *directory, crecordingvfs_observer observer, void *context) {
    pthread_once(&once, install);
    if (!below) { return -ENOSYS; }
    char path[PATH_MAX];
    // SQLite resolves symbolic links in the names of files.
    if (!realpath(directory, path)) { return -errno; }
    int32_t code = -ENOSPC;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_RECORDINGS && code; i++) {
        struct recording *one = &recordings[i];
        if (one->context) { continue; }
        strcpy(one->directory, path);
        one->length = strlen(path);
        one->observer = observer;
        one->context = context;
        code = 0;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

void crecordingvfs_end(void *context) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_RECORDINGS; i++) {
        if (recordings[i].context == context) { recordings[i].context = NULL; }
    }
    pthread_mutex_unlock(&lock);
}

#else

int32_t crecordingvfs_begin(const char *directory, crecordingvfs_observer observer, void *context) {
    (void)directory;
    (void)observer;
    (void)context;
    return -1;
}

void crecordingvfs_end(void *context) { (void)context; }
#endif
