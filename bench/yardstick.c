/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the machine itself does in the same minute, for bench/compare:
 *
 *	yardstick hub ADDRESS PORT N		answers each N datagrams with their sum
 *	yardstick spoke ADDRESS PORT RANK N	a rank: its tensor is one datagram
 *
 * A hub and its spokes make the least all-reduce of one datagram (with one spoke, a ping): nothing
 * is sent again, checked or quantized, so what remains is the kernel's work and the wake-ups of
 * N + 1 processes.
 */
#include <arpa/inet.h>
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "bench/peer.h"

/* The most that one datagram takes on Ethernet. */
#define MOST_BYTES 1472
/* No ping waits longer. Its datagram is lost then, and a ping measures nothing. */
#define PATIENCE_S 5
#define MOST_RANKS 64u

static const char usage[] = "usage: yardstick hub ADDRESS PORT N, or spoke ADDRESS PORT RANK N "
			    "(N up to 64); bench/compare starts it";

static int ping(void *state, enum sml_type type, const void *input, void *output, size_t count,
		const char **why)
{
	int fd = *(int *)state;
	size_t bytes = count * sml_type_size(type);

	*why = "a ping is one datagram: the tensor is longer";
	if (bytes > MOST_BYTES)
		return -1;
	*why = "a ping was lost";
	return send(fd, input, bytes, 0) == (ssize_t)bytes &&
			       recv(fd, output, bytes, 0) == (ssize_t)bytes
		       ? 0
		       : -1;
}

static void add(float *sum, const float *floats, ssize_t bytes)
{
	for (size_t i = 0; i < (size_t)bytes / sizeof(float); i++)
		sum[i] += floats[i];
}

/* A rank sends again only after an answer, so the next n datagrams come from n ranks. */
static int hub(int fd, const char *address, const char *port, unsigned n)
{
	float in[MOST_BYTES / sizeof(float)], sum[MOST_BYTES / sizeof(float)];
	struct sockaddr_in from[MOST_RANKS];

	printf("ready on %s:%s\n", address, port);
	fflush(stdout);
	for (;;) {
		ssize_t bytes = 0;

		memset(sum, 0, sizeof(sum));
		for (unsigned i = 0; i < n; i++) {
			socklen_t length = sizeof(from[i]);

			bytes = recvfrom(fd, in, sizeof(in), 0, (struct sockaddr *)&from[i],
					 &length);
			if (bytes < 0)
				err(1, "hub");
			add(sum, in, bytes);
		}
		/* A lost answer ends the spoke with an error. */
		for (unsigned i = 0; i < n; i++)
			(void)sendto(fd, sum, (size_t)bytes, 0, (struct sockaddr *)&from[i],
				     sizeof(from[i]));
	}
}

int main(int argc, char **argv)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct bench_library library = {.n_stripes = 1, .float_sums = true, .allreduce = ping};
	struct sockaddr_in address = {.sin_family = AF_INET};
	bool is_hub = argc == 5 && strcmp(argv[1], "hub") == 0;
	bool is_spoke = argc == 6 && strcmp(argv[1], "spoke") == 0;
	unsigned n_ranks = (unsigned)strtoul(argv[argc - 1], NULL, 10);
	int fd;

	if ((!is_hub && !is_spoke) || n_ranks < 1 || n_ranks > MOST_RANKS ||
	    inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		errx(2, "%s", usage);
	address.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		err(1, "socket");
	if (is_hub) {
		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
			err(1, "%s:%s", argv[2], argv[3]);
		return hub(fd, argv[2], argv[3], n_ranks);
	}
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		err(1, "%s:%s", argv[2], argv[3]);
	library.rank = (int)strtoul(argv[4], NULL, 10);
	library.n_ranks = (int)n_ranks;
	library.state = &fd;
	return bench_serve(&library);
}
