/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0's control port, and where it listens: no wider than the ranks need. */
#ifndef SML_LIB_LISTEN_H
#define SML_LIB_LISTEN_H

#include "lib/context/context.h"

/*
 * The numeric address to listen on, in text: the one of this host that `master` names; otherwise
 * that of the first interface that passes `filter` (SWITCHML_SOCKET_IFNAME; NULL for none). "":
 * neither, so listen on all addresses. A name with several addresses of this host, or only loopback
 * addresses, does not decide: the ranks may have resolved another one.
 */
void sml_listen_choose(const char *master, const char *filter, char text[INET6_ADDRSTRLEN]);

/*
 * Rank 0: open the control port, at the loopback if the master's address is one. The last
 * job's may be open, and stays so; or it belongs to rank 0 of the last one, which is about to close
 * it. Returns 0 or a negative error, and sets the error text.
 */
int sml_listen_open(struct sml_context *context, uint64_t deadline_ns);

/* Close it, if it is open. */
void sml_listen_close(struct sml_context *context);

/*
 * Rank 0 of a job that has a switch: open the port where those look for it that have none. Returns
 * NULL if there is none now, and for the default port: any job of this host may want that, and have
 * the same name. sml_switch_close() closes it.
 */
struct sml_switch *sml_listen_open_beside(struct sml_context *context);

#endif
