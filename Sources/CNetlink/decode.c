// Walking a datagram: message boundaries, control messages, and the choice of a decoder.
#include "internal.h"

#include <stdlib.h>

_Static_assert(sizeof(struct nlmsghdr) == 16 && NLMSG_HDRLEN == 16, "rtnetlink(7): a message starts with 16 bytes");
_Static_assert(sizeof(struct nlmsgerr) == 20, "NLMSG_ERROR: the errno and the header of the request");
_Static_assert(NLM_F_DUMP_INTR == 0x10 && NLM_F_REPLACE == 0x100, "the kernel's numbers are ABI");
_Static_assert(RTM_NEWNETCONF == 80 && RTM_DELNETCONF == 81, "the kernel's numbers are ABI");
_Static_assert(RTM_NEWNEXTHOP == 104 && RTM_DELNEXTHOP == 105, "the kernel's numbers are ABI");

static bool decode_done(const struct nlmsghdr *header, cnl_message *message) {
    const int length = NLMSG_PAYLOAD(header, 0);
    int32_t error = 0;
    if (length != 0 && length < (int)sizeof error) { return false; }
    if (length != 0) { memcpy(&error, NLMSG_DATA(header), sizeof error); }
    message->kind = CNL_DONE;
    message->error = cnl_positive_errno(error);
    return true;
}

static bool decode_error(const struct nlmsghdr *header, cnl_message *message) {
    struct nlmsgerr payload;
    if (NLMSG_PAYLOAD(header, 0) < sizeof payload) { return false; }
    memcpy(&payload, NLMSG_DATA(header), sizeof payload);
    message->kind = CNL_ERROR;
    message->error = cnl_positive_errno(payload.error);
    return true;
}

static bool decode_body(const struct nlmsghdr *header, cnl_message *message) {
    switch (header->nlmsg_type) {
    case NLMSG_DONE: return decode_done(header, message);
    case NLMSG_ERROR: return decode_error(header, message);
    case NLMSG_OVERRUN: message->kind = CNL_OVERRUN; return true;
    case RTM_NEWLINK: case RTM_DELLINK: return cnl_decode_link(header, message);
    case RTM_NEWADDR: case RTM_DELADDR: return cnl_decode_address(header, message);
    case RTM_NEWROUTE: case RTM_DELROUTE: return cnl_decode_route(header, message);
    case RTM_NEWRULE: case RTM_DELRULE: return cnl_decode_rule(header, message);
    case RTM_NEWNEXTHOP: case RTM_DELNEXTHOP: return cnl_decode_nexthop(header, message);
    case RTM_NEWNETCONF: case RTM_DELNETCONF: return cnl_decode_netconf(header, message);
    default: return true;
    }
}

// memset and not an initializer: two decodings of the same bytes are then equal byte for byte, padding included.
static void start(cnl_message *message, const struct nlmsghdr *header) {
    memset(message, 0, sizeof *message);
    message->sequence = header->nlmsg_seq;
    message->is_interrupted = (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    // Below the first real type the same bit means NLM_F_CAPPED (linux/netlink.h).
    message->is_replacement = header->nlmsg_type >= NLMSG_MIN_TYPE && (header->nlmsg_flags & NLM_F_REPLACE) != 0;
}

static void decode_message(const struct nlmsghdr *header, cnl_message *message) {
    start(message, header);
    if (decode_body(header, message)) { return; }
    start(message, header);
    message->kind = CNL_MALFORMED;
}

bool cnl_decode(const void *bytes, size_t length, size_t *offset, cnl_message *message) {
    if (*offset >= length) { return false; }
    const unsigned char *start_of_message = (const unsigned char *)bytes + *offset;
    const size_t left = length - *offset;
    struct nlmsghdr header;
    if (left >= sizeof header) { memcpy(&header, start_of_message, sizeof header); }
    if (left < sizeof header || header.nlmsg_len < sizeof header || header.nlmsg_len > left) {
        memset(message, 0, sizeof *message);
        message->kind = CNL_MALFORMED;
        *offset = length;
        return true;
    }
    // The last message of a datagram may lack its padding.
    const size_t step = NLMSG_ALIGN((size_t)header.nlmsg_len);
    *offset += step < left ? step : left;
    if ((uintptr_t)start_of_message % NLMSG_ALIGNTO == 0) {
        decode_message((const struct nlmsghdr *)(const void *)start_of_message, message);
        return true;
    }
    // A datagram in the middle of a file: the structs behind it may not be read where they are.
    struct nlmsghdr *copy = malloc(header.nlmsg_len);
    if (copy == NULL) {
        message->kind = CNL_MALFORMED;
        return true;
    }
    memcpy(copy, start_of_message, header.nlmsg_len);
    decode_message(copy, message);
    free(copy);
    return true;
}
