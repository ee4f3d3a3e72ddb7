/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams that are nearly right, alone or as super-packets, from a hostile end's socket. */
#ifndef SML_FUZZ_DATAGRAM_H
#define SML_FUZZ_DATAGRAM_H

#include <netinet/in.h>

#include "core/wire.h"
#include "sim/gen.h"

#define DATAGRAM_BYTES 65507u

struct datagram {
	uint8_t bytes[DATAGRAM_BYTES] __attribute__((aligned(8)));
	uint32_t n;
	uint32_t segment; /* of the first packet's length each; 0: one packet */
};

/*
 * Append a packet with this header, whose numbers are otherwise right: magic, version, and so many
 * lanes. Seldom with another byte in it, or of another length.
 */
void datagram_add(struct datagram *datagram, struct gen *gen, const struct sml_header *header,
		  uint16_t lanes);

/*
 * Send it, and begin anew. What the socket does not take is lost. to: NULL where the socket is
 * connected.
 */
void datagram_send(struct datagram *datagram, int fd, const struct sockaddr_in *to);

/* Take one packet that has come: its header, and from where. False: there is none. */
bool datagram_take(int fd, struct sml_header *header, struct sockaddr_in *from);

#endif
