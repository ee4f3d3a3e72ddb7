/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives from one UDP socket, many packets per call, coalesced by the kernel (UDP_GRO) where
 * possible. For ranks and for the switch.
 */
#ifndef SML_NET_UDP_INBOX_H
#define SML_NET_UDP_INBOX_H

#include <stdbool.h>
#include <stdint.h>

/*
 * One received packet, 4-byte aligned; valid until the next receive. Only packets whose length
 * sml_packet_length_is_valid() accepts are handed out.
 */
struct sml_packet {
	const void *bytes;
	uint32_t length;
	uint32_t message; /* see sml_udp_inbox_message() */
};

/* The most packets that one receive call returns. */
#define SML_RECEIVE_PACKETS 512

struct sml_udp_inbox_config {
	int fd;		/* stays the caller's */
	uint32_t bytes; /* of buffers in all */
	bool gro;	/* UDP_GRO is on */
	bool sources;	/* ask for the source of each message */
};

/* Totals. Packets whose length is not one of ours are never handed out. */
struct sml_udp_inbox_counters {
	uint64_t packets, bytes;
	uint64_t malformed; /* of those packets */
	uint32_t drops;	    /* by the socket, as far as the kernel reports it (SO_RXQ_OVFL) */
};

struct sml_udp_inbox;
struct msghdr;

/* NULL if there is no memory. */
struct sml_udp_inbox *sml_udp_inbox_new(const struct sml_udp_inbox_config *config);
void sml_udp_inbox_free(struct sml_udp_inbox *inbox);

/*
 * Returns the number of packets, at most SML_RECEIVE_PACKETS; they are valid until the next call.
 * *drained: nothing is left.
 */
unsigned sml_udp_inbox_receive(struct sml_udp_inbox *inbox, struct sml_packet *packets,
			       bool *drained);

/*
 * The source and the path of a packet; needs config.sources, and is valid until the next receive.
 */
struct msghdr *sml_udp_inbox_message(struct sml_udp_inbox *inbox, const struct sml_packet *packet);

const struct sml_udp_inbox_counters *sml_udp_inbox_counters(const struct sml_udp_inbox *inbox);

#endif
