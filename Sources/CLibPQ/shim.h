// libpq, the client library of PostgreSQL. Debian installs its header in a folder of its own, other systems do not. This file is
// included only with the trait PostgreSQL.
#ifndef CLIBPQ_SHIM_H
#define CLIBPQ_SHIM_H

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#elif __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#else
#error "the trait PostgreSQL needs libpq's header: install libpq-dev, or libpq-devel"
#endif

// Swift's Glibc has neither.
#include <poll.h>
#include <sys/eventfd.h>

#endif
