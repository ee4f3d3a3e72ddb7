/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which other hosts one host can reach. In each round, every host sends probes of each size that
 * its interface takes to every other host, and notes what arrives. So the two directions of a pair
 * can be told apart: B reports what A sends.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "cmd/doctor/peers.h"
#include "lib/transport/interface.h"
#include "net/connect.h"
#include "net/udp_options.h"
#include "net/udp_socket.h"

#define MAGIC	       0x73776d6cu
#define ROUND_MS       50
#define MOST_ADDRESSES 16
/* Of all hosts' probes that come while this one waits. */
#define BUFFER_BYTES (4 << 20)

/* At the beginning of a probe; the rest is padding. */
struct probe {
	uint32_t magic, token; /* of this run of the doctor */
	uint32_t from;	       /* index of the host in the task */
	uint32_t wanted;       /* bytes of the largest probe that it sends here */
};

struct target {
	const SmlControl__Hello *host;
	union sml_sockaddr udp; /* as our socket wants it */
	int tcp;		/* the connection under way, -1: it has ended */
	int tcp_error;		/* 0: it works */
	bool named;		/* atomic: what its name means here is known */
	char name[96];		/* "ok", or what is wrong */
};

/* Static, because questions for names that have not ended in time go on until the process ends. */
static struct {
	int udp;
	struct target targets[PEERS_MAX];
	SmlControl__Path paths[PEERS_MAX], *list[PEERS_MAX];
	unsigned n, own;
	uint32_t token;
} test;

/* ---- set-up ---- */

static void set_target(unsigned i, const char *filter)
{
	struct target *target = &test.targets[i];
	struct sml_interface interface = {.mtu = 0};
	struct sml_listen_address to;
	int error = sml_listen_address_parse(target->host->address,
					     (uint16_t)target->host->tcp_port, &to);

	if (error == 0)
		error = sml_interface_choose(&interface, filter, &to.address, target->host->name);
	target->tcp = error ? error : sml_connect_begin(&to.address, peers_bind, filter);
	/* No interface has an address of its family. */
	target->tcp_error = target->tcp >= 0		      ? ETIMEDOUT
			    : target->tcp == SML_ERROR_CONFIG ? EAFNOSUPPORT
							      : -target->tcp;
	test.paths[i].mtu = error ? 0 : interface.mtu;
	if (interface.to_device)
		(void)setsockopt(test.udp, SOL_SOCKET, SO_BINDTODEVICE, interface.name,
				 (socklen_t)strlen(interface.name));
	target->udp = to.address;
	sml_sockaddr_set_port(&target->udp, (uint16_t)target->host->udp_port);
	sml_udp_map_for(test.udp, &target->udp);
}

static void *resolve(void *self)
{
	struct target *target = self;
	union sml_sockaddr found[MOST_ADDRESSES] = {0};
	int n = sml_resolve(target->host->name, 0, found, MOST_ADDRESSES), i = 0;
	char text[INET6_ADDRSTRLEN];

	while (i < n && strcmp(sml_sockaddr_text(&found[i], text), target->host->address) != 0)
		i++;
	if (n < 0)
		snprintf(target->name, sizeof(target->name), "%s", gai_strerror(n));
	else if (i == n)
		snprintf(target->name, sizeof(target->name), "has the address %s here",
			 sml_sockaddr_text(found, text));
	__atomic_store_n(&target->named, true, __ATOMIC_RELEASE);
	return NULL;
}

void peers_probe_begin(const SmlControl__Task *task, const char *interface, int udp)
{
	pthread_t thread;

	if (task->n_hosts > PEERS_MAX || task->own >= task->n_hosts)
		return;
	test.udp = udp;
	test.n = (unsigned)task->n_hosts;
	test.own = task->own;
	test.token = task->token;
	sml_udp_forbid_fragments(udp, true);
	sml_udp_widen_in(udp, BUFFER_BYTES);
	for (unsigned i = 0; i < test.n; i++) {
		test.targets[i] = (struct target){.host = task->hosts[i], .tcp = -1, .name = "ok"};
		test.list[i] = &test.paths[i];
		sml_control__path__init(&test.paths[i]);
		if (i != test.own)
			set_target(i, interface);
		/* All at once, because a name server that is silent is silent for all. */
		if (sml_thread_start(&thread, "doctor-name", resolve, &test.targets[i]) == 0)
			pthread_detach(thread);
		else /* the rest is still news */
			test.targets[i].named = true;
	}
}

/* ---- UDP ---- */

static unsigned largest_probe(unsigned i)
{
	bool v6 = strchr(test.targets[i].host->address, ':') != NULL;
	unsigned lanes = sml_lanes_of_mtu(test.paths[i].mtu, v6 ? AF_INET6 : AF_INET);

	return lanes ? SML_HEADER_BYTES + 4 * lanes : sizeof(struct probe);
}

/* Of each size of the job's packets that the interface takes, and a very small one. */
static void send_probes(unsigned i)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	static uint8_t bytes[SML_HEADER_BYTES + 4 * SML_MAX_LANES];
	const struct probe probe = {MAGIC, test.token, test.own, largest_probe(i)};
	const union sml_sockaddr *to = &test.targets[i].udp;
	unsigned length = sizeof(probe);

	memcpy(bytes, &probe, sizeof(probe));
	for (unsigned size = 0; length <= probe.wanted; size++) {
		/* What the kernel refuses, the others miss. */
		(void)!sendto(test.udp, bytes, length, MSG_DONTWAIT, &to->any,
			      sml_sockaddr_length(to));
		if (!counts[size])
			break;
		length = SML_HEADER_BYTES + 4u * counts[size];
	}
}

static void receive_probes(void)
{
	static uint8_t bytes[SML_HEADER_BYTES + 4 * SML_MAX_LANES];
	struct probe probe;
	ssize_t length;

	/* Bounded, because anybody can send: the rest waits for the next round. */
	for (int i = 0; i < 4096; i++) {
		length = recv(test.udp, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (length < 0)
			return;
		if (length < (ssize_t)sizeof(probe))
			continue;
		memcpy(&probe, bytes, sizeof(probe));
		if (probe.magic != MAGIC || probe.token != test.token || probe.from >= test.n)
			continue;
		if ((unsigned)length > test.paths[probe.from].heard)
			test.paths[probe.from].heard = (unsigned)length;
		test.paths[probe.from].wanted = probe.wanted;
	}
}

/* ---- rounds ---- */

static void look_at_tcp(struct target *target)
{
	struct pollfd ready = {.fd = target->tcp, .events = POLLOUT};

	if (target->tcp < 0 || poll(&ready, 1, 0) <= 0)
		return;
	target->tcp_error = -sml_connect_result(target->tcp);
	close(target->tcp);
	target->tcp = -1;
}

/* Returns false if something is still under way. */
static bool report(unsigned i)
{
	SmlControl__Path *path = &test.paths[i];
	struct target *target = &test.targets[i];
	const bool named = __atomic_load_n(&target->named, __ATOMIC_ACQUIRE);
	const char *tcp, *name = named ? target->name : "no answer in time";

	look_at_tcp(target);
	tcp = target->tcp_error ? strerrordesc_np(target->tcp_error) : "ok";
	path->tcp = (char *)(uintptr_t)tcp;
	path->name = (char *)(uintptr_t)name;
	return i == test.own ||
	       (target->tcp < 0 && named && path->wanted > 0 && path->heard >= path->wanted);
}

void peers_probe(SmlControl__Done *done)
{
	for (unsigned i = 0; i < test.n; i++) {
		if (i != test.own)
			send_probes(i);
		receive_probes();
	}
	poll(NULL, 0, ROUND_MS);
	receive_probes();
	done->complete = true;
	for (unsigned i = 0; i < test.n; i++)
		done->complete &= report(i);
	done->paths = test.list;
	done->n_paths = test.n;
}
