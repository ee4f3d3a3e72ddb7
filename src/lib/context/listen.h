/* SPDX-License-Identifier: BSD-3-Clause */
/* Where rank 0's control port listens: no wider than the ranks need. */
#ifndef SML_LIB_LISTEN_H
#define SML_LIB_LISTEN_H

#include <netinet/in.h>

/*
 * The numeric address to listen on, in text: the one of this host that `master` names; otherwise
 * that of the first interface that passes `filter` (SWITCHML_SOCKET_IFNAME; NULL for none). "":
 * neither, so listen on all addresses. A name with several addresses of this host, or only loopback
 * addresses, does not decide: the ranks may have resolved another one.
 */
void sml_listen_choose(const char *master, const char *filter, char text[INET6_ADDRSTRLEN]);

#endif
