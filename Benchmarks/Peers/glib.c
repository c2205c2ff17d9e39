// GLib's GNetworkMonitor, the one that listens to netlink: the network is there if it says "available".
#include "cbench.h"

#include <gio/gio.h>

static void note(GNetworkMonitor *monitor, gboolean available, gpointer stamps) {
    (void)available;
    bench_set_view(stamps, g_network_monitor_get_network_available(monitor) ? BENCH_VIEW_REACHABLE : BENCH_VIEW_NONE);
    bench_stamp(stamps);
}

int main(void) {
    bench_stamps *stamps = bench_stamps_inherited();
    GNetworkMonitor *monitor = g_network_monitor_get_default();
    if (g_strcmp0(G_OBJECT_TYPE_NAME(monitor), "GNetworkMonitorNetlink") != 0) {
        g_printerr("peer-glib: this is a %s\n", G_OBJECT_TYPE_NAME(monitor));
        return 1;
    }
    note(monitor, FALSE, stamps);
    g_signal_connect(monitor, "network-changed", G_CALLBACK(note), stamps);
    g_main_loop_run(g_main_loop_new(NULL, FALSE));
    return 0;
}
