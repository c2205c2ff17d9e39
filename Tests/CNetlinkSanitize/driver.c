// Exercises every function of CNetlink, for a sanitizer or valgrind to watch. Arguments: recorded .nl files, whose records
// are 8 bytes of time, 4 bytes of length (little-endian), and the datagram. Run by Scripts/checks/sanitize-c.
#include "cnetlink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(bool condition, const char *what) {
    if (condition) { return; }
    fprintf(stderr, "driver: %s\n", what);
    exit(1);
}

/// Reads the lists of a message that are read from its datagram later.
static void read_lists(const unsigned char *bytes, const cnl_message *message) {
    uint32_t names = 0, hops = 0;
    char name[CNL_LONG_NAME_SIZE];
    cnl_hop hop;
    while (cnl_next_name(bytes, &message->link, &names, name)) {}
    while (cnl_next_hop(bytes, &message->route, &hops, &hop)) {}
}

/// Decodes from memory that ends where the datagram ends, so that one byte too far is found.
static size_t decode_all(const unsigned char *bytes, size_t length) {
    unsigned char *exact = malloc(length == 0 ? 1 : length);
    check(exact != NULL, "out of memory");
    memcpy(exact, bytes, length);
    size_t offset = 0, count = 0;
    cnl_message message;
    while (cnl_decode(exact, length, &offset, &message)) {
        read_lists(exact, &message);
        count += 1;
        check(offset <= length && count <= length, "decoding does not end");
    }
    cnl_policy policy;
    for (size_t start = 0; cnl_next_policy(exact, length, &start, &policy);) { check(start <= length, "decoding does not end"); }
    free(exact);
    return count;
}

static void torture(const unsigned char *bytes, size_t length) {
    check(decode_all(bytes, length) > 0, "a recorded datagram holds no message");
    for (size_t cut = 0; cut < length; cut++) { decode_all(bytes, cut); }
    unsigned char *copy = malloc(length);
    check(copy != NULL, "out of memory");
    memcpy(copy, bytes, length);
    for (size_t index = 0; index < length; index++) {
        for (int bit = 0; bit < 8; bit++) {
            copy[index] ^= (unsigned char)(1 << bit);
            decode_all(copy, length);
            copy[index] = bytes[index];
        }
    }
    // Misaligned, as in the middle of a file.
    unsigned char *shifted = malloc(length + 1);
    check(shifted != NULL, "out of memory");
    memcpy(shifted + 1, bytes, length);
    size_t offset = 1;
    cnl_message message;
    while (cnl_decode(shifted, length + 1, &offset, &message)) { read_lists(shifted, &message); }
    free(shifted);
    free(copy);
}

static size_t torture_file(const char *path) {
    FILE *file = fopen(path, "rb");
    check(file != NULL, path);
    unsigned char header[12];
    size_t count = 0;
    while (fread(header, sizeof header, 1, file) == 1) {
        const size_t length = header[8] | (size_t)header[9] << 8 | (size_t)header[10] << 16 | (size_t)header[11] << 24;
        check(length > 0 && length <= CNL_BUFFER_SIZE, "a record of impossible length");
        unsigned char *bytes = malloc(length);
        check(bytes != NULL && fread(bytes, length, 1, file) == 1, "a truncated record");
        torture(bytes, length);
        free(bytes);
        count += 1;
    }
    fclose(file);
    return count;
}

static cnl_message last_answer(cnl_socket *socket, unsigned char *buffer, size_t *count) {
    for (;;) {
        cnl_datagram datagram;
        const int64_t length = cnl_receive(socket, buffer, CNL_BUFFER_SIZE, &datagram);
        check(length > 0 && datagram.port == 0 && !datagram.is_truncated, "no answer from the kernel");
        size_t offset = 0;
        cnl_message message;
        while (cnl_decode(buffer, (size_t)length, &offset, &message)) {
            check(message.kind != CNL_MALFORMED, "the kernel's answer is not understood");
            if (message.kind == CNL_DONE || message.kind == CNL_ERROR || message.kind == CNL_ROUTE) { return message; }
            *count += 1;
        }
    }
}

static void use_socket(const char *namespace_path) {
    cnl_socket *socket;
    const char *operation;
    uint32_t granted, sequence;
    cnl_queue queue;
    check(cnl_open(&socket, namespace_path, &operation) == 0, "cnl_open");
    check(cnl_set_receive_buffer(socket, 1 << 20, &granted) == 0 && granted > 0, "cnl_set_receive_buffer");
    check(cnl_set_strict(socket) == 0 && cnl_set_receive_timeout(socket, 5000) == 0, "options");
    check(cnl_read_queue(socket, &queue) == 0 && queue.bytes == 0 && queue.drops == 0, "cnl_read_queue");
    unsigned char *buffer = malloc(CNL_BUFFER_SIZE);
    check(buffer != NULL, "out of memory");
    size_t count = 0;
    check(cnl_request_links(socket, &sequence) == 0, "cnl_request_links");
    cnl_message answer = last_answer(socket, buffer, &count);
    check(answer.kind == CNL_DONE && answer.error == 0 && answer.sequence == sequence && count > 0, "the dump of links");
    check(cnl_request_addresses(socket, &sequence) == 0, "cnl_request_addresses");
    answer = last_answer(socket, buffer, &count);
    check(answer.kind == CNL_DONE && answer.error == 0 && answer.sequence == sequence, "the dump of addresses");
    for (int variant = 0; variant < 4; variant++) {
        cnl_route_query query = { .fib_match = (variant & 2) != 0, .has_mark = true, .has_uid = true };
        query.destination.family = (variant & 1) != 0 ? AF_INET6 : AF_INET;
        query.destination.bytes[0] = 198;
        const cnl_route_query queries[] = { query, query };
        cnl_message answers[2];
        check(cnl_lookup(socket, queries, 2, buffer, answers) == 0, "cnl_lookup");
        check(answers[0].kind == answers[1].kind && answers[0].sequence != answers[1].sequence, "the answers to lookups");
    }
    cnl_close(socket);
    check(cnl_open_policies(&socket, namespace_path, &operation) == 0, "cnl_open_policies");
    check(cnl_set_receive_timeout(socket, 5000) == 0 && cnl_request_policies(socket, &sequence) == 0, "cnl_request_policies");
    // A kernel may refuse: then it is an error.
    answer = last_answer(socket, buffer, &count);
    check(answer.sequence == sequence, "the dump of policies");
    free(buffer);
    cnl_close(socket);
}

/// A policy's message with three attributes, as the recordings have none.
static void torture_policies(void) {
    unsigned char message[300];
    memset(message, 0, sizeof message);
    message[0] = sizeof message & 0xff, message[1] = sizeof message >> 8, message[4] = 0x13;
    message[16 + 40] = AF_INET;
    message[184] = 68, message[186] = 5;
    message[252] = 12, message[254] = 21;
    message[264] = 8, message[266] = 31;
    torture(message, sizeof message);
}

/// Hands a socket over, as a service manager does.
static void use_hand_over(const char *namespace_path) {
    cnl_socket *first, *second;
    const char *operation;
    uint32_t size;
    check(cnl_open(&first, namespace_path, &operation) == 0, "cnl_open");
    const int32_t copy = dup(cnl_descriptor(first));
    check(cnl_check_socket(copy, namespace_path, &operation) == 0, "cnl_check_socket");
    check(cnl_take_over(&second, copy, &operation) == 0 && cnl_descriptor(second) == copy, "cnl_take_over");
    check(cnl_read_receive_buffer(second, &size) == 0 && size > 0, "cnl_read_receive_buffer");
    cnl_close(first);
    cnl_close(second);
    check(cnl_check_socket(copy, namespace_path, &operation) < 0, "a closed descriptor");
    check(cnl_take_over(&second, copy, &operation) < 0 && second == NULL && operation != NULL, "a closed descriptor");
}

static void use_events(void) {
    cnl_socket *socket;
    const char *operation;
    cnl_datagram datagram;
    unsigned char byte;
    check(cnl_open(&socket, NULL, &operation) == 0 && cnl_set_nonblocking(socket) == 0, "cnl_open");
    for (size_t index = 0; index < cnl_group_count(); index++) { check(cnl_join(socket, cnl_groups()[index]) == 0, "cnl_join"); }
    const cnl_instruction accept = { .code = 0x06, .operand = UINT32_MAX };
    check(cnl_set_filter(cnl_descriptor(socket), &accept, 1) == 0, "attaching a filter");
    check(cnl_set_filter(cnl_descriptor(socket), NULL, 0) == 0, "removing a filter");
    check(cnl_join(socket, 0) < 0 && cnl_join(socket, UINT32_MAX) < 0, "an impossible group");
    const int32_t event = cnl_eventfd_open();
    const int32_t timer = cnl_clock_change_timer_open();
    const int32_t waited[] = { event, -1, timer };
    check(event >= 0 && timer >= 0 && cnl_wait(waited, 2, 0) == 0, "an idle event");
    cnl_eventfd_signal(event);
    check(cnl_wait(waited, 3, -1) & 1, "a signalled event");
    cnl_clear(event);
    cnl_clear(timer);
    check(cnl_wait(waited, 2, 1000) == 0, "a cleared event");
    const int32_t set = cnl_epoll_open();
    check(set >= 0 && cnl_epoll_add(set, event, 3) == 0 && cnl_epoll_wait(set, 1000) == 0, "an idle set");
    cnl_eventfd_signal(event);
    check(cnl_epoll_wait(set, -1) == 1 << 3, "a set with a signalled event");
    check(cnl_epoll_remove(set, event) == 0 && cnl_epoll_wait(set, 1000) == 0, "a removed event");
    cnl_close_descriptor(set);
    cnl_close_descriptor(timer);
    cnl_close_descriptor(event);
    check(cnl_monotonic_time() > 0 && cnl_boot_time() > 0 && cnl_wall_time() > 0, "clocks");
    cnl_name_thread("a name that is longer than fifteen bytes");
    cnl_receive(socket, &byte, 1, &datagram);
    cnl_datagram datagrams[CNL_DATAGRAM_LIMIT];
    unsigned char *buffer = malloc(CNL_MANY_BUFFER_SIZE);
    check(cnl_receive_many(socket, buffer, datagrams, CNL_DATAGRAM_LIMIT) == -EAGAIN, "an idle socket");
    free(buffer);
    cnl_close(socket);
    cnl_close(NULL);
    check(cnl_open(&socket, "/nonexistent/namespace", &operation) < 0 && socket == NULL && operation != NULL, "a bad path");
    check(cnl_enter_namespace("/nonexistent/namespace") < 0, "a bad path");
}

static void use_probes(const char *namespace) {
    cnl_interfaces list;
    const char *operation;
    check(cnl_probe_interfaces(namespace, &list, &operation) == 0 && list.link_count > 0, "the list of interfaces");
    cnl_free_interfaces(&list);
    check(list.links == NULL && list.link_count == 0, "freeing the list");
    for (int variant = 0; variant < 4; variant++) {
        cnl_route_query query = { .interface = (variant & 2) != 0 ? 1 : 0 };
        query.destination.family = (variant & 1) != 0 ? AF_INET6 : AF_INET;
        query.destination.bytes[0] = 198;
        cnl_address source;
        int32_t refusal;
        const int32_t error = cnl_probe_route(namespace, &query, &source, &refusal, &operation);
        check(error == 0 ? (refusal != 0) != (source.family != 0) : operation != NULL, "a route probe");
    }
    check(cnl_probe_interfaces("/nonexistent/namespace", &list, &operation) < 0 && list.links == NULL, "a bad path");
}

static void use_names(const char *folder) {
    char buffer[CNL_ROUTE_NAME_SIZE], text[4096];
    // Twice: the second time nothing is read.
    for (int round = 0; round < 2; round++) {
        check(cnl_table_name(254, buffer) && strcmp(buffer, "main") == 0, "the main table");
        check(cnl_protocol_name(16, buffer) && strcmp(buffer, "dhcp") == 0, "a protocol");
    }
    check(cnl_scope_name(253, buffer) && cnl_state_name(6, buffer) && !cnl_state_name(99, buffer), "a scope and states");
    check(!cnl_table_name(3123456789, buffer), "a table without a name");
    const char *const folders[] = { folder, "/etc/iproute2", "/dev" };
    const char *const names[] = { "rt_tables", "rt_protos", "zero", "../proc/self/mem", "Fixtures/addr_add.nl" };
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
        check(cnl_collect_names(folders, 3, names[index], text, sizeof text) <= sizeof text, "collecting names");
    }
}

int main(int count, char **arguments) {
    size_t records = 0;
    for (int index = 1; index < count; index++) { records += torture_file(arguments[index]); }
    check(records > 0, "no recorded datagrams given");
    torture_policies();
    use_socket(NULL);
    use_socket("/proc/thread-self/ns/net");
    use_hand_over(NULL);
    use_hand_over("/proc/thread-self/ns/net");
    use_events();
    use_names("Tests/CNetlinkTests");
    use_probes(NULL);
    use_probes("/proc/thread-self/ns/net");
    printf("driver: %zu recorded datagrams, truncated and bit-flipped; sockets, dumps, lookups\n", records);
    return 0;
}
