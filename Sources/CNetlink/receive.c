// Reading datagrams.
#define _GNU_SOURCE
#include "internal.h"

#include <stdlib.h>

_Static_assert(CNL_MANY_BUFFER_SIZE == CNL_BUFFER_SIZE + (CNL_DATAGRAM_LIMIT - 1) * CNL_DATAGRAM_SIZE,
               "a literal, because Swift imports no computed macro");

// nl_recv would fold ENOBUFS into "out of memory" and allocate a buffer of its own.
int64_t cnl_receive(cnl_socket *socket, void *buffer, size_t capacity, cnl_datagram *datagram) {
    struct sockaddr_nl sender = { 0 };
    struct iovec space = { .iov_base = buffer, .iov_len = capacity };
    struct msghdr header;
    ssize_t length;
    *datagram = (cnl_datagram){ 0 };
    do {
        header = (struct msghdr){
            .msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &space, .msg_iovlen = 1,
        };
        length = recvmsg(socket->descriptor, &header, 0);
    } while (length < 0 && errno == EINTR);
    if (length < 0) { return -errno; }
    datagram->port = sender.nl_pid;
    datagram->is_truncated = (header.msg_flags & MSG_TRUNC) != 0;
    return length;
}

/// The arguments of recvmmsg(2), kept between calls: filling them in would be a large part of the cost under load.
struct cnl_places {
    const void *buffer;
    struct sockaddr_nl senders[CNL_DATAGRAM_LIMIT];
    struct iovec spaces[CNL_DATAGRAM_LIMIT];
    struct mmsghdr headers[CNL_DATAGRAM_LIMIT];
};

static struct cnl_places *prepare(cnl_socket *socket, void *buffer) {
    if (socket->places == NULL) { socket->places = calloc(1, sizeof *socket->places); }
    struct cnl_places *places = socket->places;
    if (places == NULL || places->buffer == buffer) { return places; }
    places->buffer = buffer;
    size_t offset = 0;
    for (size_t index = 0; index < CNL_DATAGRAM_LIMIT; index++) {
        const size_t size = index == 0 ? CNL_BUFFER_SIZE : CNL_DATAGRAM_SIZE;
        places->spaces[index] = (struct iovec){ .iov_base = (char *)buffer + offset, .iov_len = size };
        places->headers[index].msg_hdr = (struct msghdr){
            .msg_name = &places->senders[index], .msg_namelen = sizeof places->senders[index],
            .msg_iov = &places->spaces[index], .msg_iovlen = 1,
        };
        offset += size;
    }
    return places;
}

int32_t cnl_receive_many(cnl_socket *socket, void *buffer, cnl_datagram *datagrams, size_t count) {
    if (count == 0 || count > CNL_DATAGRAM_LIMIT) { return -EINVAL; }
    struct cnl_places *places = prepare(socket, buffer);
    if (places == NULL) { return -ENOMEM; }
    int received;
    do {
        received = recvmmsg(socket->descriptor, places->headers, (unsigned)count, 0, NULL);
    } while (received < 0 && errno == EINTR);
    if (received < 0) { return -errno; }
    for (int index = 0; index < received; index++) {
        struct msghdr *header = &places->headers[index].msg_hdr;
        datagrams[index] = (cnl_datagram){
            // Reject datagrams without a sender address.
            .port = header->msg_namelen == sizeof places->senders[index] ? places->senders[index].nl_pid : UINT32_MAX,
            .is_truncated = (header->msg_flags & MSG_TRUNC) != 0,
            .offset = (uint32_t)((char *)places->spaces[index].iov_base - (char *)buffer),
            .length = places->headers[index].msg_len,
        };
        header->msg_namelen = sizeof places->senders[index];
    }
    return received;
}
