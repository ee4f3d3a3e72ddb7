/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: see udp_sender.h. */
#include "net/udp_sender.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "core/wire.h"

#define SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)
/* Longest wait for room in the socket. */
#define SEND_WAIT_MS 5
/* Tries of a message that are worth it: for room, and after errors that ICMP has left. */
#define TRIES_MAX 8

/* What becomes of a message that the kernel has not taken. */
enum fate { TRY_AGAIN, GONE, NO_ROOM };

void sml_udp_sender_init(struct sml_udp_sender *sender, int fd, bool segments)
{
	sender->fd = fd;
	sender->segments = segments;
	sender->refusal = 0;
	sender->too_long = sender->longest = 0;
	sender->packets = sender->bytes = sender->drops = 0;
	sender->n = 0;
}

/* ---- messages ---- */

/* Equal lengths; the last one may be shorter. */
unsigned sml_udp_sender_run(const struct sml_udp_sender *sender, const struct iovec *packets,
			    unsigned n)
{
	size_t segment = packets[0].iov_len, bytes = segment;
	unsigned run = 1;

	while (sender->segments && run < n && run < SML_SUPER_PACKET_PACKETS) {
		size_t length = packets[run].iov_len;

		if (length > segment || bytes + length > SML_SUPER_PACKET_BYTES)
			break;
		bytes += length;
		run++;
		if (length < segment)
			break;
	}
	return run;
}

static bool lie_back_to_back(const struct iovec *packets, unsigned n, size_t *bytes)
{
	const uint8_t *end = packets[0].iov_base;

	for (unsigned i = 0; i < n; i++) {
		if (packets[i].iov_base != end)
			return false;
		end += packets[i].iov_len;
	}
	*bytes = (size_t)(end - (const uint8_t *)packets[0].iov_base);
	return true;
}

/* The header of a message of ours. Its control bytes: as many as fit behind sml_path.from. */
static void write_header(const struct sml_udp_message *message, char *control,
			 struct msghdr *header)
{
	const struct sml_path *path = message->path;
	size_t bytes = 0;

	*header = (struct msghdr){
		.msg_iov = (struct iovec *)(uintptr_t)message->packets,
		.msg_iovlen = message->n,
	};
	if (path) {
		header->msg_name = (void *)(uintptr_t)&path->to;
		header->msg_namelen = sizeof(path->to);
		bytes = path->from_bytes;
		memcpy(control, path->from, bytes);
	}
	if (message->n > 1) {
		sml_udp_write_segment(control + bytes, (uint16_t)message->packets[0].iov_len);
		bytes += SML_UDP_SEGMENT_SPACE;
	}
	header->msg_control = bytes > 0 ? control : NULL;
	header->msg_controllen = bytes;
}

void sml_udp_sender_add(struct sml_udp_sender *sender, const struct sml_udp_message *message)
{
	unsigned m = sender->n++;
	struct msghdr *header = &sender->headers[m].msg_hdr;
	size_t bytes;

	sender->messages[m] = *message;
	write_header(message, sender->controls[m].bytes, header);
	if (message->n > 1 && lie_back_to_back(message->packets, message->n, &bytes)) {
		sender->whole[m] = (struct iovec){message->packets[0].iov_base, bytes};
		header->msg_iov = &sender->whole[m];
		header->msg_iovlen = 1;
	}
}

/* ---- sending ---- */

static void count_sent(struct sml_udp_sender *sender, const struct sml_udp_message *message)
{
	sender->packets += message->n;
	for (unsigned i = 0; i < message->n; i++)
		sender->bytes += message->packets[i].iov_len;
	if (message->packets[0].iov_len > sender->longest)
		sender->longest = (uint32_t)message->packets[0].iov_len;
}

/* Do not report probes that are too long. */
static void drop_message(struct sml_udp_sender *sender, const struct sml_udp_message *message,
			 int error)
{
	size_t length = message->packets[0].iov_len;

	sender->drops += message->n;
	if (error == EMSGSIZE && length <= sender->longest)
		sender->too_long = (uint32_t)length;
}

bool sml_udp_sender_send_one(struct sml_udp_sender *sender, const struct iovec *packet,
			     const struct sml_path *path)
{
	const struct sml_udp_message message = {.packets = packet, .n = 1, .path = path};
	_Alignas(struct cmsghdr) char control[sizeof(path->from)];
	struct msghdr header;

	write_header(&message, control, &header);
	if (sendmsg(sender->fd, &header, SEND_FLAGS) < 0) {
		drop_message(sender, &message, errno);
		return false;
	}
	count_sent(sender, &message);
	return true;
}

/*
 * A super-packet was refused: because there is no segmentation here, or because of its address
 * or length. One by one tells: if all leave, it was the segmentation, and it is not tried
 * again. (A worker with an odd path must not cost the others theirs.)
 */
static void send_singly(struct sml_udp_sender *sender, const struct sml_udp_message *message,
			int refusal)
{
	bool all = true;

	for (unsigned i = 0; i < message->n; i++)
		all &= sml_udp_sender_send_one(sender, &message->packets[i], message->path);
	if (!all || !sender->segments)
		return;
	sender->segments = false;
	sender->refusal = refusal;
}

static bool waits_for_room(struct sml_udp_sender *sender)
{
	struct pollfd room = {.fd = sender->fd, .events = POLLOUT};

	return poll(&room, 1, SEND_WAIT_MS) > 0;
}

/* What the error of the first message of a call means for it, when it failed for the n-th time. */
static enum fate fate_of(struct sml_udp_sender *sender, const struct sml_udp_message *message,
			 int error, bool wait_for_room, unsigned tries)
{
	bool may_try = tries < TRIES_MAX;

	switch (error) {
	case EINTR:
		return TRY_AGAIN;
	case EAGAIN:
	case ENOBUFS:
		if (wait_for_room)
			return may_try && waits_for_room(sender) ? TRY_AGAIN : NO_ROOM;
		return error == EAGAIN ? NO_ROOM : GONE;
	case ECONNREFUSED: /* of an earlier packet: reported once, and gone */
		return may_try ? TRY_AGAIN : GONE;
	case EMSGSIZE: /* on a connected socket, so is this, unless it comes again */
		return may_try && message->path == NULL ? TRY_AGAIN : GONE;
	default:
		return GONE;
	}
}

static bool is_of_segmentation(int error)
{
	return error == EIO || error == EINVAL || error == EMSGSIZE || error == EOPNOTSUPP;
}

/* The first message of a call failed, for the n-th time. */
static enum fate overcome(struct sml_udp_sender *sender, const struct sml_udp_message *message,
			  bool wait_for_room, unsigned tries)
{
	int error = errno;
	enum fate fate = fate_of(sender, message, error, wait_for_room, tries);

	if (fate != GONE)
		return fate;
	if (message->n > 1 && is_of_segmentation(error))
		send_singly(sender, message, error);
	else
		drop_message(sender, message, error);
	return GONE;
}

unsigned sml_udp_sender_flush(struct sml_udp_sender *sender, bool wait_for_room)
{
	unsigned done = 0, tries = 0, gone = 0, n = sender->n;
	enum fate fate = TRY_AGAIN;

	sender->n = 0;
	while (done < n && fate != NO_ROOM) {
		int sent = sendmmsg(sender->fd, sender->headers + done, n - done, SEND_FLAGS);

		for (int i = 0; i < sent; i++) {
			gone += sender->messages[done].n;
			count_sent(sender, &sender->messages[done++]);
		}
		tries = sent > 0 ? 0 : tries + 1;
		if (sent > 0)
			continue;
		fate = overcome(sender, &sender->messages[done], wait_for_room, tries);
		if (fate != GONE)
			continue;
		gone += sender->messages[done++].n;
		tries = 0;
	}
	/* The socket stays full: who misses these will ask again. */
	for (; wait_for_room && done < n; done++) {
		sender->drops += sender->messages[done].n;
		gone += sender->messages[done].n;
	}
	return gone;
}

bool sml_udp_sender_refusal(struct sml_udp_sender *sender, char text[SML_UDP_REFUSAL_BYTES])
{
	if (sender->refusal == 0)
		return false;
	snprintf(text, SML_UDP_REFUSAL_BYTES,
		 "the system refuses UDP segmentation offload (%s): packets are sent one by one, "
		 "which costs more CPU time",
		 strerrordesc_np(sender->refusal));
	sender->refusal = 0;
	return true;
}
