/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole switch, control plane and dataplane, as threads of this process. The
 * daemon runs it. Without a dataplane, it is the place where ranks that embed
 * the stripes of their job meet. It opens its sockets, and then serves until it
 * is closed.
 */
#ifndef SML_SWITCH_SWITCH_H
#define SML_SWITCH_SWITCH_H

#include "switch/config.h"

struct sml_switch;

void sml_switch_config_init(struct sml_switch_config *config);

/*
 * Starts a switch. Port 0 takes a free one (see sml_switch_port()). Returns 0
 * or a negative number; then sml_error_last() says why and what to do.
 */
int sml_switch_open(struct sml_switch **opened, const struct sml_switch_config *config);

uint16_t sml_switch_port(const struct sml_switch *opened);

/* What moves its packets, as text: "1 thread", "xdp (native) on eth0". */
void sml_switch_describe(const struct sml_switch *opened, char *text, size_t bytes);

/*
 * From now on, the config's debug and heartbeat_ms hold, for jobs and ranks that join; and a switch
 * that was opened for only_job serves the config's instead, and ends the old one. Any thread.
 * Negative: the limit of descriptors is too low for rank 0's new job, and nothing has changed.
 */
int sml_switch_reload(struct sml_switch *opened, const struct sml_switch_config *config);

/* How long ago the event loop last looked at the time, in ns: a tick or less, unless it hangs. */
uint64_t sml_switch_idle_ns(const struct sml_switch *opened);

/*
 * Its status, a packed Status that the caller frees, for threads of this process other than its
 * own. The event loop makes it after what its members need. NULL if there is no memory, or the loop
 * has not answered for so long.
 */
uint8_t *sml_switch_status(struct sml_switch *opened, uint32_t timeout_ms, size_t *n);

/* Ends all jobs, whose ranks get an error, and all threads. */
void sml_switch_close(struct sml_switch *opened);

/* Likewise. True: ranks of its only job were told that they disagree; text: how. */
bool sml_switch_close_told(struct sml_switch *opened, char *text, size_t bytes);

#endif
