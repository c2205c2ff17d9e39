// Names for routing tables, protocols, scopes and states, from iproute2's files and libnl.
//
// libnl reads a file with blocking calls, without a limit, up to the first malformed line, and drops the names of an earlier file
// (lib/utils.c, __nl_read_num_str_file; lib/route/route_utils.c). So this code gives it one file in memory: the checked lines of
// all files, then the well-known names.
#define _GNU_SOURCE
#include "internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <netlink/route/link.h>
#include <netlink/route/route.h>
#include <netlink/route/rtnl.h>

/// The number of bytes of a file that are read.
enum { FILE_LIMIT = 1 << 16 };
/// The number of files of a folder that are read.
enum { FOLDER_LIMIT = 64 };

/// Text that grows up to a limit.
struct text {
    char *bytes;
    size_t length, capacity;
};

static bool is_blank(char byte) { return byte == ' ' || byte == '\t'; }

/// Adds a line if it starts with "NUMBER NAME" and fits; skips it otherwise.
static void add_line(struct text *text, const char *line) {
    while (is_blank(*line)) { line++; }
    // Reject a sign, which strtoull(3) would accept.
    if (*line < '0' || *line > '9') { return; }
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(line, &end, 0);
    if (errno != 0 || number > UINT32_MAX || !is_blank(*end)) { return; }
    while (is_blank(*end)) { end++; }
    const size_t length = strcspn(end, " \t\r\n#");
    if (length == 0 || length >= CNL_ROUTE_NAME_SIZE) { return; }
    const size_t room = text->capacity - text->length;
    // As an int, libnl's type; its strtol(3) would stop at numbers above LONG_MAX.
    const int size = snprintf(text->bytes + text->length, room, "%d %.*s\n", (int)(uint32_t)number, (int)length, end);
    if (size > 0 && (size_t)size < room) { text->length += (size_t)size; }
}

/// Adds the lines of a regular file.
static void add_file(struct text *text, const char *path) {
    // O_NONBLOCK: opening a FIFO would block.
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) { return; }
    struct stat status;
    char *bytes = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) ? malloc(FILE_LIMIT + 1) : NULL;
    size_t length = 0;
    while (bytes != NULL && length < FILE_LIMIT) {
        const ssize_t count = read(descriptor, bytes + length, FILE_LIMIT - length);
        if (count < 0 && errno == EINTR) { continue; }
        if (count <= 0) { break; }
        length += (size_t)count;
    }
    close(descriptor);
    if (bytes == NULL) { return; }
    bytes[length] = 0;
    for (char *line = bytes; line < bytes + length;) {
        char *end = memchr(line, '\n', (size_t)(bytes + length - line));
        // The end of a truncated file may be half a line.
        if (end == NULL && length == FILE_LIMIT) { break; }
        if (end == NULL) { end = bytes + length; }
        *end = 0;
        // Skip lines with a NUL.
        if (strlen(line) == (size_t)(end - line)) { add_line(text, line); }
        line = end + 1;
    }
    free(bytes);
}

static int is_configuration(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && dot != NULL && strcmp(dot, ".conf") == 0;
}

/// Adds the files NAME.d/*.conf, in the order of their names.
static void add_folder(struct text *text, const char *path) {
    struct dirent **entries;
    const int count = scandir(path, &entries, is_configuration, alphasort);
    for (int index = 0; index < count; index++) {
        char file[512];
        const int size = snprintf(file, sizeof file, "%s/%s", path, entries[index]->d_name);
        if (index < FOLDER_LIMIT && size > 0 && (size_t)size < sizeof file) { add_file(text, file); }
        free(entries[index]);
    }
    if (count >= 0) { free(entries); }
}

size_t cnl_collect_names(const char *const *folders, size_t count, const char *name, char *bytes, size_t capacity) {
    struct text text = { .bytes = bytes, .capacity = capacity };
    for (size_t index = 0; index < count; index++) {
        char path[512];
        int size = snprintf(path, sizeof path, "%s/%s.d", folders[index], name);
        if (size < 0 || (size_t)size >= sizeof path) { continue; }
        add_folder(&text, path);
        path[size - 2] = 0;
        add_file(&text, path);
    }
    return text.length;
}

// iproute2's search path: the administrator's files, then the distribution's (/usr/lib in 6.5 and 6.6).
static const char *const folders[] = { "/etc/iproute2", "/usr/share/iproute2", "/usr/lib/iproute2" };

static const char tables[] = "255 local\n254 main\n253 default\n";
// RTPROT_* of linux/rtnetlink.h, for machines without iproute2.
static const char protocols[] =
    "0 unspec\n1 redirect\n2 kernel\n3 boot\n4 static\n8 gated\n9 ra\n10 mrt\n11 zebra\n12 bird\n13 dnrouted\n14 xorp\n15 ntk\n"
    "16 dhcp\n17 mrouted\n18 keepalived\n42 babel\n99 openr\n186 bgp\n187 isis\n188 ospf\n189 rip\n192 eigrp\n";

/// Gives libnl the names of one kind. Returns false if that fails; a later call may succeed.
static bool read_names(const char *name, const char *known, int (*read)(const char *)) {
    const size_t capacity = 4 * FILE_LIMIT, known_length = strlen(known);
    char *bytes = malloc(capacity);
    const int descriptor = memfd_create("names", MFD_CLOEXEC);
    bool is_read = false;
    if (bytes != NULL && descriptor >= 0) {
        // libnl takes the first name for a number, so the well-known ones come last.
        size_t length = cnl_collect_names(folders, sizeof folders / sizeof folders[0], name, bytes, capacity - known_length);
        memcpy(bytes + length, known, known_length);
        length += known_length;
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
        // Checked first: libnl drops its names before it opens the file.
        is_read = write(descriptor, bytes, length) == (ssize_t)length && access(path, R_OK) == 0 && read(path) >= 0;
    }
    if (descriptor >= 0) { close(descriptor); }
    free(bytes);
    return is_read;
}

// libnl's lists are global and unsynchronised.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/// Writes a name; false if libnl has none and writes the number in hexadecimal.
static bool put_name(char *(*put)(int, char *, size_t), int number, char *buffer) {
    char unnamed[16];
    snprintf(unnamed, sizeof unnamed, "0x%x", (unsigned)number);
    put(number, buffer, CNL_ROUTE_NAME_SIZE);
    return strcmp(buffer, unnamed) != 0;
}

bool cnl_table_name(uint32_t table, char *buffer) {
    static bool are_read;
    pthread_mutex_lock(&mutex);
    if (!are_read) { are_read = read_names("rt_tables", tables, rtnl_route_read_table_names); }
    const bool is_known = put_name(rtnl_route_table2str, (int)table, buffer);
    pthread_mutex_unlock(&mutex);
    return is_known;
}

bool cnl_protocol_name(uint8_t protocol, char *buffer) {
    static bool are_read;
    pthread_mutex_lock(&mutex);
    if (!are_read) { are_read = read_names("rt_protos", protocols, rtnl_route_read_protocol_names); }
    const bool is_known = put_name(rtnl_route_proto2str, protocol, buffer);
    pthread_mutex_unlock(&mutex);
    return is_known;
}

bool cnl_scope_name(uint8_t scope, char *buffer) { return put_name(rtnl_scope2str, scope, buffer); }

static char *put_state(int state, char *buffer, size_t size) { return rtnl_link_operstate2str((uint8_t)state, buffer, size); }

bool cnl_state_name(uint8_t state, char *buffer) { return put_name(put_state, state, buffer); }
