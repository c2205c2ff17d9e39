// Reading datagrams.
#define _GNU_SOURCE
#include "internal.h"

// Not nl_recv: it would fold ENOBUFS into "out of memory", and it would grow a buffer of its own.
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
