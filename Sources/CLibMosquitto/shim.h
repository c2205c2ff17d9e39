// libmosquitto, the client library of Eclipse Mosquitto. This file is included only with the trait MQTT.
#ifndef CLIBMOSQUITTO_SHIM_H
#define CLIBMOSQUITTO_SHIM_H

#if __has_include(<mosquitto.h>)
#include <mosquitto.h>
#else
#error "the trait MQTT needs libmosquitto's header: install libmosquitto-dev, or mosquitto-devel"
#endif

// Swift's Glibc has neither.
#include <sys/epoll.h>
#include <sys/eventfd.h>

#endif
