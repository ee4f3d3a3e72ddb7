/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What becomes of the way to the parent when a try fails, or a connection ends. parent.c makes the
 * tries.
 */
#include <stdio.h>
#include <string.h>

#include "switch/control/server.h"
#include "switch/shared/log.h"

void sml_uplink_wait(struct sml_uplink *uplink, uint64_t ns)
{
	if (uplink->timer != NULL)
		sml_watch_at(uplink->timer, sml_now_ns() + ns);
}

void sml_uplink_failed(struct sml_server *server, const char *why)
{
	struct sml_uplink *uplink = &server->uplink;

	snprintf(server->jobs.leaf.why, sizeof(server->jobs.leaf.why), "%s", why);
	if (strcmp(uplink->why, why) == 0)
		return;
	snprintf(uplink->why, sizeof(uplink->why), "%s", why);
	sml_switch_log(SML_LOG_WARN,
		       "the parent %s cannot be reached: %s. This leaf tries again until it "
		       "answers, and its ranks cannot join before that",
		       uplink->where, why);
}

void sml_uplink_lost(struct sml_server *server)
{
	server->uplink.connection = NULL;
	sml_uplink_wait(&server->uplink, SML_UPLINK_PAUSE_NS);
}
