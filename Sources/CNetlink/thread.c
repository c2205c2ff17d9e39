// What a thread is called.
#include "cnetlink.h"

#include <sys/prctl.h>

void cnl_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }
