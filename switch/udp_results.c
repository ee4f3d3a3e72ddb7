/* SPDX-License-Identifier: BSD-3-Clause */
/* Results on their way out: see udp_results.h. */
#include "switch/udp_results.h"

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/* What the kernel takes in one call: 64 segments, and an IP packet of 64 KiB. */
#define SEGMENTS_MAX	 64
#define SUPER_PACKET_MAX 65000
/* Packets in one sendmmsg call. */
#define MESSAGES_MAX 256
/* Longest wait for room in the socket. */
#define SEND_WAIT_MS 5

/* A run of packets that can leave as one super-packet. */
struct run {
	unsigned first, n;
};

union segment_control {
	char bytes[CMSG_SPACE(sizeof(uint16_t))];
	struct cmsghdr align;
};

void sml_results_init(struct sml_results *results)
{
	*results = (struct sml_results){0};
}

void sml_results_begin(struct sml_results *results, const void *job, uint8_t shard,
		       const struct sockaddr_in6 *addresses, uint8_t n_ranks)
{
	results->job = job;
	results->shard = shard;
	results->addresses = addresses;
	results->n_ranks = n_ranks;
	results->n = 0;
}

bool sml_results_add(struct sml_results *results, const void *job, uint8_t shard,
		     const void *packet, uint32_t length)
{
	if (results->job != job || results->shard != shard || results->n == SML_RESULTS_MAX)
		return false;
	results->packets[results->n++] = (struct iovec){(void *)(uintptr_t)packet, length};
	return true;
}

/* The longest run from `first`: equal lengths, the last one may be shorter. */
static struct run next_run(const struct sml_results *results, unsigned first)
{
	size_t segment = results->packets[first].iov_len, bytes = segment;
	struct run run = {first, 1};

	while (!results->no_segmentation && first + run.n < results->n && run.n < SEGMENTS_MAX) {
		size_t length = results->packets[first + run.n].iov_len;

		if (length > segment || bytes + length > SUPER_PACKET_MAX)
			break;
		bytes += length;
		run.n++;
		if (length < segment)
			break;
	}
	return run;
}

static void write_message(const struct sml_results *results, const struct run *run,
			  const struct sockaddr_in6 *address, union segment_control *control,
			  struct msghdr *message)
{
	uint16_t segment = (uint16_t)results->packets[run->first].iov_len;
	struct cmsghdr *header;

	*message = (struct msghdr){
		.msg_name = (void *)(uintptr_t)address,
		.msg_namelen = sizeof(*address),
		.msg_iov = (struct iovec *)(uintptr_t)&results->packets[run->first],
		.msg_iovlen = run->n,
	};
	if (run->n == 1)
		return;
	message->msg_control = control->bytes;
	message->msg_controllen = sizeof(control->bytes);
	header = CMSG_FIRSTHDR(message);
	header->cmsg_level = SOL_UDP;
	header->cmsg_type = UDP_SEGMENT;
	header->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(header), &segment, sizeof(segment));
}

static void count_sent(struct sml_results *results, const struct msghdr *message)
{
	results->packets_sent += message->msg_iovlen;
	for (size_t i = 0; i < message->msg_iovlen; i++)
		results->bytes_sent += message->msg_iov[i].iov_len;
}

/* A path without segmentation refuses super-packets: say so once, and go on without. */
static bool refuses_segmentation(struct sml_results *results, const struct msghdr *message)
{
	if (message->msg_iovlen <= 1 || (errno != EIO && errno != EINVAL && errno != EMSGSIZE))
		return false;
	if (!results->no_segmentation)
		fprintf(stderr,
			"switchml switch: the path refuses UDP segmentation offload (%s): sending "
			"packets one by one, which costs more CPU\n",
			strerror(errno));
	results->no_segmentation = true;
	return true;
}

static void send_singly(struct sml_results *results, int fd, const struct msghdr *message)
{
	for (size_t i = 0; i < message->msg_iovlen; i++)
		sml_results_send_one(results, fd, message->msg_iov[i].iov_base,
				     (uint32_t)message->msg_iov[i].iov_len, message->msg_name);
}

static void send_messages(struct sml_results *results, int fd, struct mmsghdr *messages, unsigned n)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	unsigned done = 0;
	bool waited = false;

	while (done < n) {
		int sent = sendmmsg(fd, messages + done, n - done, MSG_DONTWAIT);

		if (sent > 0) {
			for (int i = 0; i < sent; i++)
				count_sent(results, &messages[done + (unsigned)i].msg_hdr);
			done += (unsigned)sent;
			waited = false;
			continue;
		}
		if (errno == EINTR)
			continue;
		if ((errno == EAGAIN || errno == ENOBUFS) && !waited) {
			poll(&room, 1, SEND_WAIT_MS);
			waited = true;
			continue;
		}
		if (refuses_segmentation(results, &messages[done].msg_hdr))
			send_singly(results, fd, &messages[done].msg_hdr);
		else
			results->drops += messages[done].msg_hdr.msg_iovlen;
		done++;
		waited = false;
	}
}

void sml_results_flush(struct sml_results *results, int fd)
{
	struct mmsghdr messages[MESSAGES_MAX];
	union segment_control controls[MESSAGES_MAX];
	unsigned n = 0;
	struct run run;

	for (unsigned first = 0; first < results->n; first += run.n) {
		run = next_run(results, first);
		for (unsigned rank = 0; rank < results->n_ranks; rank++) {
			const struct sockaddr_in6 *address =
				&results->addresses[rank * SML_MAX_SHARDS + results->shard];

			if (n == MESSAGES_MAX) {
				send_messages(results, fd, messages, n);
				n = 0;
			}
			write_message(results, &run, address, &controls[n], &messages[n].msg_hdr);
			n++;
		}
	}
	if (n > 0)
		send_messages(results, fd, messages, n);
	results->n = 0;
	results->job = NULL;
}

void sml_results_send_one(struct sml_results *results, int fd, const void *packet, uint32_t length,
			  const struct sockaddr_in6 *address)
{
	if (sendto(fd, packet, length, MSG_DONTWAIT, (const struct sockaddr *)address,
		   sizeof(*address)) < 0) {
		results->drops++;
		return;
	}
	results->packets_sent++;
	results->bytes_sent += length;
}
