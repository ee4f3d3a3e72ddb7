/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/host/meet.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fork.h"

#define MAGIC	  0x534d4c48u
#define FLAGS	  (SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC)
#define LISTENING SML_MAX_CHILDREN

/* ---- the listener ---- */

/* name: an AF_UNIX address, otherwise zero. */
static socklen_t name_of(const uint8_t token[SML_HOST_TOKEN_BYTES], struct sockaddr_un *name)
{
	/* An abstract name begins with a zero byte. */
	char *place = name->sun_path + 1;

	place += sprintf(place, "switchml-");
	for (unsigned i = 0; i < SML_HOST_TOKEN_BYTES; i++)
		place += sprintf(place, "%02x", token[i]);
	return (socklen_t)(place - (char *)name);
}

int sml_host_listen(struct sml_host_listener *listener)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t length;
	int error;

	listener->fd = -1;
	if (getrandom(listener->token, sizeof(listener->token), 0) != sizeof(listener->token))
		return -EIO;
	length = name_of(listener->token, &name);
	listener->fd = sml_fd_lift(socket(AF_UNIX, FLAGS, 0));
	if (listener->fd < 0)
		return -errno;
	if (bind(listener->fd, (struct sockaddr *)&name, length) == 0 &&
	    listen(listener->fd, LISTENING) == 0)
		return 0;
	error = -errno;
	sml_host_close_listener(listener);
	return error;
}

void sml_host_close_listener(struct sml_host_listener *listener)
{
	if (listener->fd >= 0)
		close(listener->fd);
	listener->fd = -1;
}

/* ---- messages ---- */

int sml_meet_check_hello(const struct sml_meet_group *group, uint32_t job, unsigned leader,
			 const void *bytes, size_t n)
{
	struct sml_meet_message message;

	if (n != sizeof(message))
		return -EPROTO;
	memcpy(&message, bytes, sizeof(message));
	if (message.magic != MAGIC ||
	    (message.kind != SML_MEET_HELLO && message.kind != SML_MEET_PROOF) ||
	    message.job != job || message.rank >= SML_MAX_CHILDREN || message.rank == leader ||
	    !(group->ranks >> message.rank & 1) ||
	    memcmp(message.token, group->tokens[message.rank], SML_HOST_TOKEN_BYTES) != 0)
		return -EPROTO;
	return (int)message.rank;
}

/* Another user's process must get nothing, although it may have found the name. */
static bool is_own_user(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

/* What an offer brings: the memory, and the leader's eventfd, if it has one. */
struct passed {
	int fds[2]; /* -1: none */
};

static unsigned count_passed(const struct passed *passed)
{
	return passed->fds[0] < 0 ? 0 : passed->fds[1] < 0 ? 1 : 2;
}

static void drop_passed(struct passed *passed)
{
	for (unsigned i = 0; i < 2; i++)
		if (passed->fds[i] >= 0)
			close(passed->fds[i]);
	*passed = (struct passed){{-1, -1}};
}

static int send_message(int fd, const struct sml_meet_message *message, const struct passed *passed)
{
	struct iovec bytes = {(void *)(uintptr_t)message, sizeof(*message)};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = {.room = {0}};
	struct msghdr out = {.msg_iov = &bytes, .msg_iovlen = 1};
	size_t length = passed ? count_passed(passed) * sizeof(int) : 0;

	if (length > 0) {
		out.msg_control = &control;
		out.msg_controllen = CMSG_SPACE(length);
		control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(length),
						  .cmsg_level = SOL_SOCKET,
						  .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), passed->fds, length);
	}
	return sendmsg(fd, &out, MSG_NOSIGNAL) == (ssize_t)sizeof(*message) ? 0 : -errno;
}

/* Returns the length; -EAGAIN: nothing has come; 0: the end. The caller closes *passed. */
static ssize_t receive_message(int fd, void *bytes, size_t n, struct passed *passed)
{
	struct iovec place = {bytes, n};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(passed->fds))];
	} control;
	struct msghdr in = {.msg_iov = &place,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control.room)};
	ssize_t length = recvmsg(fd, &in, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header;

	*passed = (struct passed){{-1, -1}};
	if (length < 0)
		return -errno;
	/* There is room for two descriptors only: the kernel closes any others. */
	header = CMSG_FIRSTHDR(&in);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len >= CMSG_LEN(sizeof(int)) &&
	    header->cmsg_len <= CMSG_LEN(sizeof(passed->fds)))
		memcpy(passed->fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
	for (unsigned i = 0; i < 2; i++)
		passed->fds[i] = sml_fd_lift(passed->fds[i]);
	return in.msg_flags & MSG_TRUNC ? -EPROTO : length;
}

/* ---- the handshake ---- */

/* The leader's other ranks, and strangers of the same user. */
#define MAX_GUESTS (2 * SML_MAX_CHILDREN)

struct guest {
	int fd;	  /* -1: this place is free */
	int rank; /* -1: it has not said */
};

struct sml_host_handshake {
	struct sml_host_terms terms;
	struct sml_meet_group group;
	unsigned rank, leader;
	struct sml_host_memory memory;
	struct passed shared; /* of memory_fd and that eventfd: the leader's */
	int epoll_fd;
	/* The leader's. */
	int listener_fd;
	uint64_t proven;
	struct guest guests[MAX_GUESTS];
	/* The others'. */
	int fd; /* to the leader */
	bool connected;
};

static bool is_leader(const struct sml_host_handshake *handshake)
{
	return handshake->rank == handshake->leader;
}

static int watch(const struct sml_host_handshake *handshake, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};

	return epoll_ctl(handshake->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int create(struct sml_host_handshake *handshake)
{
	int fd = sml_host_create(&handshake->memory, &handshake->terms);

	if (fd < 0)
		return fd;
	handshake->shared.fds[0] = fd;
	if (!handshake->terms.goes_up)
		return 0;
	handshake->shared.fds[1] = sml_fd_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	return handshake->shared.fds[1] < 0 ? -errno : 0;
}

static int prepare(struct sml_host_handshake *handshake, const struct sml_host_listener *listener)
{
	int error;

	handshake->epoll_fd = sml_fd_lift(epoll_create1(EPOLL_CLOEXEC));
	if (handshake->epoll_fd < 0)
		return -errno;
	if (is_leader(handshake)) {
		if (getrandom(&handshake->terms.proof, sizeof(handshake->terms.proof), 0) < 0)
			return -errno;
		error = create(handshake);
		if (error)
			return error;
		handshake->listener_fd = listener->fd;
		return listener->fd < 0 ? -EBADF : watch(handshake, listener->fd);
	}
	handshake->fd = sml_fd_lift(socket(AF_UNIX, FLAGS, 0));
	return handshake->fd < 0 ? -errno : 0;
}

struct sml_host_handshake *sml_host_handshake_new(const struct sml_host_terms *terms,
						  const struct sml_meet_group *group, unsigned rank,
						  const struct sml_host_listener *listener)
{
	struct sml_host_handshake *handshake = calloc(1, sizeof(*handshake));
	int error;

	if (handshake == NULL)
		return NULL;
	handshake->terms = *terms;
	handshake->group = *group;
	handshake->rank = rank;
	handshake->leader = group->ranks ? (unsigned)__builtin_ctzll(group->ranks) : rank;
	handshake->epoll_fd = handshake->listener_fd = handshake->fd = -1;
	handshake->shared = (struct passed){{-1, -1}};
	for (unsigned i = 0; i < MAX_GUESTS; i++)
		handshake->guests[i].fd = -1;
	error = prepare(handshake, listener);
	if (error == 0)
		return handshake;
	sml_host_handshake_free(handshake);
	errno = -error;
	return NULL;
}

int sml_host_handshake_fd(const struct sml_host_handshake *handshake)
{
	return is_leader(handshake) || handshake->connected ? handshake->epoll_fd : -1;
}

/* ---- the leader ---- */

static void dismiss(struct guest *guest)
{
	close(guest->fd);
	*guest = (struct guest){-1, -1};
}

static void welcome(struct sml_host_handshake *handshake)
{
	int fd;

	while ((fd = sml_fd_lift(accept4(handshake->listener_fd, NULL, NULL,
					 SOCK_NONBLOCK | SOCK_CLOEXEC))) >= 0) {
		struct guest *place = NULL;

		for (unsigned i = 0; i < MAX_GUESTS && place == NULL; i++)
			if (handshake->guests[i].fd < 0)
				place = &handshake->guests[i];
		if (place == NULL || !is_own_user(fd) || watch(handshake, fd) < 0)
			close(fd);
		else
			*place = (struct guest){fd, -1};
	}
}

static int offer(const struct sml_host_handshake *handshake, const struct guest *guest)
{
	const struct sml_meet_message message = {
		.magic = MAGIC,
		.kind = SML_MEET_OFFER,
		.job = handshake->terms.job,
		.rank = handshake->rank,
		.proof = handshake->terms.proof,
	};

	return send_message(guest->fd, &message, &handshake->shared);
}

/* Its token is in our memory, so it has mapped this memory. */
static bool has_proved(const struct sml_host_handshake *handshake, int rank)
{
	const uint8_t *there = handshake->memory.head->ranks[rank].token;

	return memcmp(there, handshake->group.tokens[rank], SML_HOST_TOKEN_BYTES) == 0;
}

/* Negative: the guest is none. */
static int hear(struct sml_host_handshake *handshake, struct guest *guest)
{
	uint8_t bytes[sizeof(struct sml_meet_message)];
	struct passed passed;
	int rank;
	ssize_t n = receive_message(guest->fd, bytes, sizeof(bytes), &passed);

	drop_passed(&passed);
	if (n == -EAGAIN)
		return 0;
	rank = n > 0 ? sml_meet_check_hello(&handshake->group, handshake->terms.job,
					    handshake->leader, bytes, (size_t)n)
		     : -EPROTO;
	if (rank < 0 || (guest->rank >= 0 && guest->rank != rank))
		return -EPROTO;
	if (guest->rank < 0) {
		guest->rank = rank;
		return offer(handshake, guest);
	}
	if (!has_proved(handshake, rank))
		return -EPROTO;
	handshake->proven |= (uint64_t)1 << rank;
	return 0;
}

static int lead(struct sml_host_handshake *handshake)
{
	welcome(handshake);
	for (unsigned i = 0; i < MAX_GUESTS; i++) {
		struct guest *guest = &handshake->guests[i];
		int rank = guest->rank;

		if (guest->fd < 0 || hear(handshake, guest) == 0)
			continue;
		dismiss(guest);
		/* A rank of the group that could not map the memory: the others need not wait. */
		if (rank >= 0 && !(handshake->proven >> rank & 1))
			return -ECONNRESET;
	}
	return (handshake->proven | (uint64_t)1 << handshake->leader) == handshake->group.ranks;
}

/* ---- the others ---- */

static int say(const struct sml_host_handshake *handshake, enum sml_meet_kind kind)
{
	struct sml_meet_message message = {
		.magic = MAGIC, .kind = kind, .job = handshake->terms.job, .rank = handshake->rank};

	memcpy(message.token, handshake->group.tokens[handshake->rank], SML_HOST_TOKEN_BYTES);
	return send_message(handshake->fd, &message, NULL);
}

static int go_to_leader(struct sml_host_handshake *handshake)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t length = name_of(handshake->group.tokens[handshake->leader], &name);
	int error;

	if (connect(handshake->fd, (struct sockaddr *)&name, length) < 0)
		/* Its queue of connections is full, so this rank tries again later. */
		return errno == EAGAIN ? 0 : -errno;
	if (!is_own_user(handshake->fd))
		return -EPERM;
	handshake->connected = true;
	error = say(handshake, SML_MEET_HELLO);
	return error ? error : watch(handshake, handshake->fd);
}

static int accept_offer(struct sml_host_handshake *handshake)
{
	struct sml_meet_message message = {.magic = 0};
	struct passed passed;
	ssize_t n = receive_message(handshake->fd, &message, sizeof(message), &passed);
	int error = -EPROTO;

	if (n == -EAGAIN)
		return 0;
	if (n == (ssize_t)sizeof(message) &&
	    count_passed(&passed) == (handshake->terms.goes_up ? 2 : 1) && message.magic == MAGIC &&
	    message.kind == SML_MEET_OFFER && message.job == handshake->terms.job) {
		handshake->terms.proof = message.proof;
		error = sml_host_map(&handshake->memory, &handshake->terms, passed.fds[0]);
	}
	if (error == 0) {
		handshake->shared.fds[1] = passed.fds[1];
		passed.fds[1] = -1;
	}
	drop_passed(&passed);
	if (error)
		return error;
	memcpy(handshake->memory.head->ranks[handshake->rank].token,
	       handshake->group.tokens[handshake->rank], SML_HOST_TOKEN_BYTES);
	/* The socket keeps the order of the two. */
	error = say(handshake, SML_MEET_PROOF);
	return error ? error : 1;
}

int sml_host_handshake_step(struct sml_host_handshake *handshake)
{
	int error;

	if (is_leader(handshake))
		return lead(handshake);
	if (!handshake->connected) {
		error = go_to_leader(handshake);
		if (error || !handshake->connected)
			return error;
	}
	return accept_offer(handshake);
}

struct sml_host_memory sml_host_handshake_take(struct sml_host_handshake *handshake, int *leader_fd)
{
	struct sml_host_memory memory = handshake->memory;

	*leader_fd = handshake->shared.fds[1];
	handshake->shared.fds[1] = -1;
	handshake->memory.head = NULL;
	return memory;
}

void sml_host_handshake_free(struct sml_host_handshake *handshake)
{
	if (handshake == NULL)
		return;
	for (unsigned i = 0; i < MAX_GUESTS; i++)
		if (handshake->guests[i].fd >= 0)
			close(handshake->guests[i].fd);
	if (handshake->fd >= 0)
		close(handshake->fd);
	drop_passed(&handshake->shared);
	if (handshake->epoll_fd >= 0)
		close(handshake->epoll_fd);
	sml_host_unmap(&handshake->memory);
	free(handshake);
}
