/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends results: see udp_results.h. */
#include "net/udp_results.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "net/udp_options.h"

/* Packets in one sendmmsg call. */
#define MESSAGES_MAX 256
/* The longest wait for room in the socket, and how often to wait between two messages. */
#define SEND_WAIT_MS 5
#define MAX_WAITS    8

/* A run of packets that can leave as one super-packet. */
struct run {
	unsigned first, n;
};

/* Our address (sml_path.from), then the length of a super-packet's segments. */
union send_control {
	char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + SML_UDP_SEGMENT_SPACE];
	struct cmsghdr align;
};

/* A message's address identifies its path. */
_Static_assert(offsetof(struct sml_path, to) == 0, "the address comes first");

void sml_results_init(struct sml_results *results, uint8_t own_rank)
{
	*results = (struct sml_results){.own_rank = own_rank};
}

void sml_results_begin(struct sml_results *results, const void *job, uint8_t shard,
		       const struct sml_path *paths, uint8_t n_ranks)
{
	results->job = job;
	results->shard = shard;
	results->paths = paths + shard;
	results->stride = SML_MAX_SHARDS;
	results->n_ranks = n_ranks;
	results->ranks = UINT64_MAX;
	if (results->own_rank < SML_MAX_RANKS)
		results->ranks &= ~((uint64_t)1 << results->own_rank);
	results->ways = NULL;
	results->n = 0;
}

void sml_results_use_groups(struct sml_results *results, const struct sml_ways *ways,
			    const uint64_t *reached)
{
	results->ways = ways;
	results->reached = reached;
}

bool sml_results_add(struct sml_results *results, const void *job, uint8_t shard,
		     const void *packet, uint32_t length)
{
	if (results->job != job || results->shard != shard || results->n == SML_RESULTS_MAX)
		return false;
	results->packets[results->n++] = (struct iovec){(void *)(uintptr_t)packet, length};
	return true;
}

/* The longest run from `first`: equal lengths, but the last may be shorter. */
static struct run next_run(const struct sml_results *results, unsigned first)
{
	size_t segment = results->packets[first].iov_len, bytes = segment;
	struct run run = {first, 1};

	while (!results->no_segmentation && first + run.n < results->n &&
	       run.n < SML_SUPER_PACKET_PACKETS) {
		size_t length = results->packets[first + run.n].iov_len;

		if (length > segment || bytes + length > SML_SUPER_PACKET_BYTES)
			break;
		bytes += length;
		run.n++;
		if (length < segment)
			break;
	}
	return run;
}

static void write_message(const struct iovec *packets, unsigned n, const struct sml_path *path,
			  union send_control *control, struct msghdr *message)
{
	size_t bytes = path->from_bytes;

	*message = (struct msghdr){
		.msg_name = (void *)(uintptr_t)&path->to,
		.msg_namelen = sizeof(path->to),
		.msg_iov = (struct iovec *)(uintptr_t)packets,
		.msg_iovlen = n,
	};
	memcpy(control->bytes, path->from.bytes, bytes);
	if (n > 1) {
		sml_udp_write_segment(control->bytes + bytes, (uint16_t)packets[0].iov_len);
		bytes += SML_UDP_SEGMENT_SPACE;
	}
	message->msg_control = bytes > 0 ? control->bytes : NULL;
	message->msg_controllen = bytes;
}

static void count_sent(struct sml_results *results, const struct msghdr *message)
{
	results->packets_sent += message->msg_iovlen;
	if (((const struct sml_path *)message->msg_name)->is_group)
		results->packets_multicast += message->msg_iovlen;
	for (size_t i = 0; i < message->msg_iovlen; i++)
		results->bytes_sent += message->msg_iov[i].iov_len;
}

/*
 * A super-packet was refused: because there is no segmentation here, or because of its address.
 * Sending the packets one by one shows which: if they leave, it was the segmentation, which is then
 * not tried again. (A worker with an unusual path must not disable segmentation for the others.)
 */
static void send_singly(struct sml_results *results, int fd, const struct msghdr *message)
{
	int refusal = errno;
	bool all = true;

	for (size_t i = 0; i < message->msg_iovlen; i++)
		all &= sml_results_send_one(results, fd, message->msg_iov[i].iov_base,
					    (uint32_t)message->msg_iov[i].iov_len,
					    (const struct sml_path *)message->msg_name);
	if (!all || results->no_segmentation)
		return;
	results->no_segmentation = true;
	fprintf(stderr,
		"switchml switch: the system refuses UDP segmentation offload (%s): packets are "
		"sent one by one, which costs more CPU time\n",
		strerror(refusal));
}

/* The first message of a call failed. False: the socket is full, and will stay so for now. */
static bool overcome(struct sml_results *results, int fd, const struct msghdr *message,
		     bool *sent_otherwise)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};

	*sent_otherwise = false;
	if (errno == EINTR)
		return true;
	if (errno == EAGAIN || errno == ENOBUFS)
		return poll(&room, 1, SEND_WAIT_MS) > 0;
	*sent_otherwise = true;
	if (message->msg_iovlen > 1 && (errno == EIO || errno == EINVAL || errno == EMSGSIZE))
		send_singly(results, fd, message);
	else
		results->drops += message->msg_iovlen;
	return true;
}

static void send_messages(struct sml_results *results, int fd, struct mmsghdr *messages, unsigned n)
{
	unsigned done = 0, waits = 0;
	bool sent_otherwise;

	while (done < n) {
		int sent = sendmmsg(fd, messages + done, n - done, MSG_DONTWAIT);

		for (int i = 0; i < sent; i++)
			count_sent(results, &messages[done++].msg_hdr);
		if (sent > 0) {
			waits = 0;
			continue;
		}
		if (waits++ == MAX_WAITS ||
		    !overcome(results, fd, &messages[done].msg_hdr, &sent_otherwise))
			break;
		if (sent_otherwise) {
			done++;
			waits = 0;
		}
	}
	/* The socket stays full: ranks that miss these results will ask again. */
	for (; done < n; done++)
		results->drops += messages[done].msg_hdr.msg_iovlen;
}

/* Messages until there are enough for a call. */
struct outgoing {
	struct sml_results *results;
	int fd;
	unsigned n;
	struct mmsghdr messages[MESSAGES_MAX];
	union send_control controls[MESSAGES_MAX];
};

static void send_all(struct outgoing *out)
{
	if (out->n > 0)
		send_messages(out->results, out->fd, out->messages, out->n);
	out->n = 0;
}

static void add_message(struct outgoing *out, const struct run *run, const struct sml_path *path)
{
	if (out->n == MESSAGES_MAX)
		send_all(out);
	write_message(&out->results->packets[run->first], run->n, path, &out->controls[out->n],
		      &out->messages[out->n].msg_hdr);
	out->n++;
}

/*
 * Send to groups. Returns the ranks that this reaches. A single rank is sent to as without a group.
 */
static uint64_t add_group_messages(struct outgoing *out, const struct run *run)
{
	const struct sml_ways *ways = out->results->ways;
	uint64_t reached = __atomic_load_n(out->results->reached, __ATOMIC_RELAXED), sent = 0;

	for (unsigned i = 0; i < ways->n; i++) {
		uint64_t ranks = ways->way[i].ranks & reached;

		if ((ranks & (ranks - 1)) == 0)
			continue;
		add_message(out, run, &ways->way[i].path);
		sent |= ranks;
	}
	return sent;
}

void sml_results_flush(struct sml_results *results, int fd)
{
	struct outgoing out;
	struct run run;

	out.results = results;
	out.fd = fd;
	out.n = 0;
	for (unsigned first = 0; first < results->n; first += run.n) {
		uint64_t sent;

		run = next_run(results, first);
		sent = results->ways ? add_group_messages(&out, &run) : 0;
		/*
		 * Start with the rank after our own, so that stripes do not all begin with the same
		 * rank.
		 */
		for (unsigned i = 1; i <= results->n_ranks; i++) {
			unsigned rank = (results->own_rank + i) % results->n_ranks;

			if ((results->ranks & ~sent) >> rank & 1)
				add_message(&out, &run, &results->paths[rank * results->stride]);
		}
	}
	send_all(&out);
	results->n = 0;
	results->job = NULL;
}

void sml_results_send_to(struct sml_results *results, int fd, const struct sml_path *paths,
			 uint64_t ranks, const struct iovec *packets, unsigned n)
{
	sml_assert(n <= SML_RESULTS_MAX);
	results->paths = paths;
	results->stride = 1;
	results->n_ranks = SML_MAX_RANKS;
	results->ranks = ranks;
	results->ways = NULL;
	results->n = n;
	memcpy(results->packets, packets, n * sizeof(*packets));
	sml_results_flush(results, fd);
}

bool sml_results_send_one(struct sml_results *results, int fd, const void *packet, uint32_t length,
			  const struct sml_path *path)
{
	const struct iovec bytes = {(void *)(uintptr_t)packet, length};
	union send_control control;
	struct msghdr message;

	write_message(&bytes, 1, path, &control, &message);
	if (sendmsg(fd, &message, MSG_DONTWAIT) < 0) {
		results->drops++;
		return false;
	}
	results->packets_sent++;
	results->bytes_sent += length;
	return true;
}
