/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes in by one UDP socket, many packets to a call, glued together by the kernel
 * (UDP_GRO) where it can. For ranks and for the switch.
 */
#ifndef SML_NET_UDP_INBOX_H
#define SML_NET_UDP_INBOX_H

#include <stdbool.h>
#include <stdint.h>

/*
 * One packet that came in, 4-byte aligned; valid until the next receive. None is handed out of
 * another length than sml_packet_length_is_valid() says.
 */
struct sml_packet {
	const void *bytes;
	uint32_t length;
	uint32_t message; /* see sml_udp_inbox_message() */
};

/* The most that one call of receive gives back. */
#define SML_RECEIVE_PACKETS 512

struct sml_udp_inbox_config {
	int fd;		/* stays the caller's */
	uint32_t bytes; /* of buffers in all */
	bool glues;	/* UDP_GRO is on */
	bool sources;	/* of each message it is asked where it came from */
};

/* Of the whole life. Packets of lengths that none of ours has are never handed out. */
struct sml_udp_inbox_counters {
	uint64_t packets, bytes;
	uint64_t malformed; /* of those packets */
	uint32_t drops;	    /* by the socket, as far as the kernel tells (SO_RXQ_OVFL) */
};

struct sml_udp_inbox;
struct msghdr;

/* NULL: no memory. */
struct sml_udp_inbox *sml_udp_inbox_new(const struct sml_udp_inbox_config *config);
void sml_udp_inbox_free(struct sml_udp_inbox *inbox);

/*
 * Returns how many came, at most SML_RECEIVE_PACKETS: valid until the next call.
 * *drained: nothing is left.
 */
unsigned sml_udp_inbox_receive(struct sml_udp_inbox *inbox, struct sml_packet *packets,
			       bool *drained);

/* Where a packet came from, and by which way: with config.sources, until the next receive. */
struct msghdr *sml_udp_inbox_message(struct sml_udp_inbox *inbox, const struct sml_packet *packet);

const struct sml_udp_inbox_counters *sml_udp_inbox_counters(const struct sml_udp_inbox *inbox);

#endif
