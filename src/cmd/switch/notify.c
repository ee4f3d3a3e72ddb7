/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to the service manager: see daemon.h. */
#include "cmd/switch/daemon.h"

#include <stdlib.h>

#ifdef SML_HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

bool sml_notify_is_wanted(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

void sml_notify(const char *state)
{
	(void)sd_notify(0, state);
}

uint64_t sml_notify_watchdog_ns(void)
{
	uint64_t usec;

	return sd_watchdog_enabled(0, &usec) > 0 ? usec * 1000 : 0;
}

#else

bool sml_notify_is_wanted(void)
{
	return false;
}

void sml_notify(const char *state)
{
	(void)state;
}

uint64_t sml_notify_watchdog_ns(void)
{
	return 0;
}

#endif
