/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes in by one UDP socket, many packets to a call, glued together by the kernel
 * (UDP_GRO) where it can. Half a MiB of buffers each.
 */
#ifndef SML_LIB_UDP_INBOX_H
#define SML_LIB_UDP_INBOX_H

#include "lib/transport/transport.h"

struct sml_udp_inbox;

/* glues: UDP_GRO is on. NULL: no memory. The socket stays the caller's. */
struct sml_udp_inbox *sml_udp_inbox_new(int fd, bool glues);
void sml_udp_inbox_free(struct sml_udp_inbox *inbox);

/*
 * Returns how many came, at most SML_RECEIVE_PACKETS: valid until the next call.
 * *drained: nothing is left.
 */
unsigned sml_udp_inbox_receive(struct sml_udp_inbox *inbox, struct sml_packet *packets,
			       bool *drained);

#endif
