#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <sys/socket.h>

int64_t cnl_receive(cnl_socket *socket, void *buffer, size_t capacity, cnl_datagram *datagram)
{
    // Not nl_recv: it folds ENOBUFS into NLE_NOMEM and does not show who sent the datagram.
    struct sockaddr_nl sender = {0};
    struct iovec vector = {.iov_base = buffer, .iov_len = capacity};
    struct msghdr header = {.msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &vector, .msg_iovlen = 1};
    ssize_t length;
    do
        length = recvmsg(cnl_descriptor(socket), &header, 0);
    while (length < 0 && errno == EINTR);
    if (length < 0)
        return -errno;
    datagram->port = sender.nl_pid;
    datagram->is_truncated = (header.msg_flags & MSG_TRUNC) != 0;
    return length;
}
