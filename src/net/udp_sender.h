/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends through one UDP socket: many messages per system call, and in each message as many packets
 * as the kernel can split by itself (UDP_SEGMENT). For ranks' batches, and for results of slots in
 * ranks and in the switch. One thread at a time.
 *
 *	packets --run--> message for one path --add--> waiting --flush--> the socket
 *
 * The invariant: no packet is sent twice. A message that the kernel has refused leaves packet by
 * packet, or is dropped and counted.
 */
#ifndef SML_NET_UDP_SENDER_H
#define SML_NET_UDP_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "net/udp_options.h"
#include "net/udp_socket.h"

/* That wait at most. */
#define SML_UDP_MESSAGES 256

/* Packets for one path. Both last until the flush. */
struct sml_udp_message {
	const struct iovec *packets;
	unsigned n;
	const struct sml_path *path; /* NULL if the socket is connected */
};

struct sml_udp_sender {
	int fd; /* stays the caller's */
	bool segments;
	/* What the kernel has begun to refuse, for the caller to tell; 0 if there is nothing. */
	int refusal;	   /* errno of super-packets, when `segments` has become false */
	uint32_t too_long; /* length of packets, though it had taken as long ones before */
	uint32_t longest;  /* packet that it has taken */
	uint64_t packets, bytes;
	uint64_t drops; /* packets that are lost: there was no room, or no way */
	unsigned n;
	struct sml_udp_message messages[SML_UDP_MESSAGES];
	struct mmsghdr headers[SML_UDP_MESSAGES];
	struct iovec whole[SML_UDP_MESSAGES]; /* of packets that lie back to back */
	/* Our address (sml_path.from), then the length of a super-packet's segments. */
	struct {
		_Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
						    SML_UDP_SEGMENT_SPACE];
	} controls[SML_UDP_MESSAGES];
};

void sml_udp_sender_init(struct sml_udp_sender *sender, int fd, bool segments);

/* How many of these n packets, from the first on, can leave as one message. */
unsigned sml_udp_sender_run(const struct sml_udp_sender *sender, const struct iovec *packets,
			    unsigned n);

/* A run waits for the flush. Only while sender.n is less than SML_UDP_MESSAGES. */
void sml_udp_sender_add(struct sml_udp_sender *sender, const struct sml_udp_message *message);

/*
 * Sends everything that waits. Returns how many packets were sent or dropped, from the first on. If
 * the socket is full and wait_for_room is set, this waits for a moment, and drops the packets that
 * still have no room; otherwise these packets stay the caller's.
 */
unsigned sml_udp_sender_flush(struct sml_udp_sender *sender, bool wait_for_room);

/* Sends one packet now, without waiting. Returns false if it was dropped, and counts it. */
bool sml_udp_sender_send_one(struct sml_udp_sender *sender, const struct iovec *packet,
			     const struct sml_path *path);

/* True once, when the kernel has begun to refuse super-packets: a sentence for the log.
 */
#define SML_UDP_REFUSAL_BYTES 160
bool sml_udp_sender_refusal(struct sml_udp_sender *sender, char text[SML_UDP_REFUSAL_BYTES]);

#endif
