/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the machine itself does in the same minute, for bench/compare:
 *
 *	yardstick memcpy			copies the tensor
 *	yardstick echo ADDRESS PORT		answers each datagram with itself
 *	yardstick ping ADDRESS PORT		sends the tensor as one datagram, and waits for it
 *
 * All but `echo` are one rank, whose sum is its own tensor.
 */
#include <arpa/inet.h>
#include <err.h>
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

static int copy(void *state, const float *input, float *output, size_t count, unsigned pieces,
		const char **why)
{
	(void)state;
	(void)pieces;
	(void)why;
	memcpy(output, input, count * sizeof(float));
	return 0;
}

static int ping(void *state, const float *input, float *output, size_t count, unsigned pieces,
		const char **why)
{
	int fd = *(int *)state;
	size_t bytes = count * sizeof(float);

	(void)pieces;
	*why = "a ping is one datagram: the tensor is longer";
	if (bytes > MOST_BYTES)
		return -1;
	*why = "a ping was lost";
	return send(fd, input, bytes, 0) == (ssize_t)bytes &&
			       recv(fd, output, bytes, 0) == (ssize_t)bytes
		       ? 0
		       : -1;
}

static int echo(int fd, const char *address, const char *port)
{
	char bytes[MOST_BYTES];
	struct sockaddr_in from;

	printf("ready on %s:%s\n", address, port);
	fflush(stdout);
	for (;;) {
		socklen_t length = sizeof(from);
		ssize_t n =
			recvfrom(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &length);

		if (n < 0)
			err(1, "echo");
		/* A lost answer ends the ping with an error. */
		(void)sendto(fd, bytes, (size_t)n, 0, (struct sockaddr *)&from, length);
	}
}

int main(int argc, char **argv)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct bench_library library = {.n_ranks = 1, .n_stripes = 1, .allreduce = copy};
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd;

	library.sums = BENCH_SUMS_FLOAT32;
	if (argc == 2 && strcmp(argv[1], "memcpy") == 0)
		return bench_serve(&library);
	if (argc != 4 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		errx(2,
		     "usage: yardstick memcpy, or echo|ping ADDRESS PORT; bench/compare starts it");
	address.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		err(1, "socket");
	if (strcmp(argv[1], "echo") == 0) {
		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
			err(1, "%s:%s", argv[2], argv[3]);
		return echo(fd, argv[2], argv[3]);
	}
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		err(1, "%s:%s", argv[2], argv[3]);
	library.state = &fd;
	library.allreduce = ping;
	return bench_serve(&library);
}
