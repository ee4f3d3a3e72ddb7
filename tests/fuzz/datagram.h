/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams that are almost correct, alone or as super-packets, from the socket of a hostile
 * peer.
 */
#ifndef SML_FUZZ_DATAGRAM_H
#define SML_FUZZ_DATAGRAM_H

#include <netinet/in.h>

#include "core/wire.h"
#include "sim/gen.h"

#define DATAGRAM_BYTES 65507u

struct datagram {
	uint8_t bytes[DATAGRAM_BYTES] __attribute__((aligned(8)));
	uint32_t n;
	uint32_t segment; /* length of each packet, as the first one; 0: one packet */
};

/*
 * Append a packet with this header. The rest is correct: magic, version, and number of
 * lanes. In rare cases the packet has one changed byte, or another length.
 */
void datagram_add(struct datagram *datagram, struct gen *gen, const struct sml_header *header,
		  uint16_t lanes);

/*
 * Send the packets and start with an empty buffer. Packets that the socket does not accept
 * are lost. to: NULL if the socket is connected.
 */
void datagram_send(struct datagram *datagram, int fd, const struct sockaddr_in *to);

/* Take one received packet: its header and its sender. False: there is none. */
bool datagram_take(int fd, struct sml_header *header, struct sockaddr_in *from);

#endif
