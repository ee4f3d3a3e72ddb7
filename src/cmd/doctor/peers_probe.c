/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which other hosts one host can reach. Every host sends probes of each size that its interface
 * takes to every other host, repeatedly until rank 0 says stop, and notes what arrives. So the two
 * directions of a pair can be told apart: B reports what A sends.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/doctor/peers.h"
#include "net/udp_options.h"

#define MAGIC	   0x73776d6cu
#define ROUND_MS   50
#define LONGEST_MS 20000 /* if rank 0 falls silent; its own limit is shorter */
#define CONNECT_MS 4000
#define RESOLVE_MS 5000

/* At the beginning of a probe; the rest is padding. */
struct probe {
	uint32_t magic, token; /* of this run of the doctor */
	uint32_t from;	       /* index of the host in the plan */
	uint32_t wanted;       /* bytes of the largest probe that it sends here */
};

struct target {
	const char *name, *address;
	union sml_sockaddr udp; /* as our socket wants it */
	unsigned mtu;		/* of our interface that leads there */
	unsigned heard, wanted; /* bytes of the largest probe from there, and of those it sends */
	int tcp;		/* the connection under way, -1: it has ended */
	int tcp_error;		/* 0: it works */
};

struct test {
	const struct peers_sockets *sockets;
	struct target *targets;
	unsigned n, own;
	uint32_t token;
	bool complete;
};

/* ---- set-up ---- */

static unsigned mtu_to(const union sml_sockaddr *to, const char *device)
{
	bool v6 = to->any.sa_family == AF_INET6;
	int fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
	socklen_t length = sizeof(mtu);

	if (fd < 0)
		return 0;
	peers_bind_device(fd, device);
	if (connect(fd, &to->any, sml_sockaddr_length(to)) < 0 ||
	    getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &length) <
		    0)
		mtu = 0;
	close(fd);
	return (unsigned)mtu;
}

static void begin_tcp(struct target *target, const union sml_sockaddr *to, const char *device)
{
	int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

	if (fd >= 0)
		peers_bind_device(fd, device);
	error = fd < 0 ? -errno : sml_connect_begin(fd, to);
	target->tcp_error = error ? -error : ETIMEDOUT;
	target->tcp = error ? -1 : fd;
	if (error && fd >= 0)
		close(fd);
}

static bool set_target(struct target *target, const json_t *host,
		       const struct peers_sockets *sockets)
{
	int udp = 0, tcp = 0;
	union sml_sockaddr to;

	target->tcp = -1;
	if (json_unpack((json_t *)(uintptr_t)host, "{s:s, s:s, s:i, s:i}", "name", &target->name,
			"address", &target->address, "udp", &udp, "tcp", &tcp) < 0 ||
	    !peers_address(target->address, tcp, &to))
		return false;
	begin_tcp(target, &to, sockets->device);
	target->mtu = mtu_to(&to, sockets->device);
	target->udp = to;
	sml_sockaddr_set_port(&target->udp, (uint16_t)udp);
	if (sockets->v6)
		sml_sockaddr_map(&target->udp);
	return true;
}

/* ---- UDP ---- */

static unsigned largest_probe(const struct target *target)
{
	bool is_ipv6 = target->udp.any.sa_family == AF_INET6 &&
		       !IN6_IS_ADDR_V4MAPPED(&target->udp.v6.sin6_addr);
	unsigned lanes = sml_lanes_of_mtu(target->mtu, is_ipv6 ? AF_INET6 : AF_INET);

	return lanes ? SML_HEADER_BYTES + 4 * lanes : sizeof(struct probe);
}

/* Of each size of the job's packets that the interface takes, and a very small one. */
static void send_probes(const struct test *test, const struct target *target)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	static uint8_t bytes[SML_HEADER_BYTES + 4 * SML_MAX_LANES];
	const struct probe probe = {MAGIC, test->token, test->own, largest_probe(target)};
	unsigned length = sizeof(probe);

	memcpy(bytes, &probe, sizeof(probe));
	for (unsigned i = 0; length <= probe.wanted; i++) {
		/* What the kernel refuses, the others miss. */
		(void)!sendto(test->sockets->udp, bytes, length, MSG_DONTWAIT, &target->udp.any,
			      sml_sockaddr_length(&target->udp));
		if (!counts[i])
			break;
		length = SML_HEADER_BYTES + 4u * counts[i];
	}
}

static void receive_probes(struct test *test)
{
	static uint8_t bytes[SML_HEADER_BYTES + 4 * SML_MAX_LANES];
	struct probe probe;
	ssize_t length;

	/* Bounded, because anybody can send: the rest waits for the next round. */
	for (int i = 0; i < 4096; i++) {
		length = recv(test->sockets->udp, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (length < 0)
			return;
		if (length < (ssize_t)sizeof(probe))
			continue;
		memcpy(&probe, bytes, sizeof(probe));
		if (probe.magic != MAGIC || probe.token != test->token || probe.from >= test->n)
			continue;
		if ((unsigned)length > test->targets[probe.from].heard)
			test->targets[probe.from].heard = (unsigned)length;
		test->targets[probe.from].wanted = probe.wanted;
	}
}

/* ---- TCP ---- */

static void look_at_tcp(struct target *target)
{
	struct pollfd ready = {.fd = target->tcp, .events = POLLOUT};

	if (target->tcp < 0 || poll(&ready, 1, 0) <= 0)
		return;
	target->tcp_error = -sml_connect_result(target->tcp);
	close(target->tcp);
	target->tcp = -1;
}

/* ---- until rank 0 says stop ---- */

static bool is_complete(const struct test *test)
{
	for (unsigned i = 0; i < test->n; i++) {
		const struct target *target = &test->targets[i];

		if (i != test->own &&
		    (target->tcp >= 0 || !target->wanted || target->heard < target->wanted))
			return false;
	}
	return true;
}

static void run_round(struct test *test)
{
	for (unsigned i = 0; i < test->n; i++) {
		if (i == test->own)
			continue;
		send_probes(test, &test->targets[i]);
		look_at_tcp(&test->targets[i]);
		receive_probes(test);
	}
	receive_probes(test);
}

static void run_test(struct test *test, struct peers_link *coordinator)
{
	uint64_t deadline_ns = sml_now_ns() + LONGEST_MS * SML_NS_PER_MS;
	json_t *stop = NULL;

	while (!stop && coordinator->fd >= 0 && sml_now_ns() < deadline_ns) {
		run_round(test);
		if (!test->complete && is_complete(test)) {
			test->complete = true;
			peers_link_send(coordinator, json_pack("{s:b}", "complete", 1));
		}
		stop = peers_link_receive(coordinator, sml_now_ns() + ROUND_MS * SML_NS_PER_MS);
	}
	json_decref(stop);
	receive_probes(test);
}

/* ---- names ---- */

/* Which of its addresses a name has: "ok", or what is wrong. */
static json_t *judge_name(const struct gaicb *asked, const char *address)
{
	union sml_sockaddr wanted, found;
	char text[INET6_ADDRSTRLEN] = "", first[INET6_ADDRSTRLEN] = "";
	int error = gai_error((struct gaicb *)(uintptr_t)asked);

	if (error)
		return json_string(error == EAI_INPROGRESS ? "no answer in time"
							   : gai_strerror(error));
	if (!peers_address(address, 0, &wanted))
		return json_string("ok");
	sml_sockaddr_text(&wanted, text);
	for (const struct addrinfo *info = asked->ar_result; info; info = info->ai_next) {
		char other[INET6_ADDRSTRLEN];

		memset(&found, 0, sizeof(found));
		memcpy(&found, info->ai_addr,
		       info->ai_addrlen < sizeof(found) ? info->ai_addrlen : sizeof(found));
		sml_sockaddr_text(&found, other);
		if (strcmp(other, text) == 0)
			return json_string("ok");
		if (!*first)
			memcpy(first, other, sizeof(first));
	}
	return json_sprintf("has the address %s here", first);
}

/*
 * All at once, because a name server that is silent is silent for all. The requests and their names
 * are static: those that have not ended in time go on until this process ends.
 */
static void resolve_all(const struct test *test, json_t *report)
{
	static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	static struct gaicb asked[PEERS_MAX], *list[PEERS_MAX];
	static char names[PEERS_MAX][256];
	uint64_t deadline_ns = sml_now_ns() + RESOLVE_MS * SML_NS_PER_MS;
	bool waits = test->n > 0;

	for (unsigned i = 0; i < test->n; i++) {
		/* The plan is freed before a late answer comes. */
		snprintf(names[i], sizeof(names[i]), "%s", test->targets[i].name);
		asked[i] = (struct gaicb){.ar_name = names[i], .ar_request = &hints};
		list[i] = &asked[i];
	}
	if (waits && getaddrinfo_a(GAI_NOWAIT, list, (int)test->n, NULL) != 0)
		return; /* without names, the rest is still news */
	while (waits && sml_now_ns() < deadline_ns) {
		waits = false;
		for (unsigned i = 0; i < test->n; i++)
			waits = waits || gai_error(&asked[i]) == EAI_INPROGRESS;
		if (waits)
			poll(NULL, 0, 10);
	}
	for (unsigned i = 0; i < test->n; i++) {
		json_object_set_new(json_array_get(report, i), "name",
				    judge_name(&asked[i], test->targets[i].address));
		if (gai_error(&asked[i]) == 0)
			freeaddrinfo(asked[i].ar_result);
	}
}

static json_t *make_report(const struct test *test)
{
	json_t *report = json_array();

	for (unsigned i = 0; i < test->n; i++) {
		const struct target *target = &test->targets[i];
		const char *tcp = target->tcp_error ? strerrordesc_np(target->tcp_error) : "ok";

		json_array_append_new(report,
				      json_pack("{s:s, s:i, s:i, s:i}", "tcp", tcp, "heard",
						(int)target->heard, "wanted", (int)target->wanted,
						"mtu", (int)target->mtu));
	}
	resolve_all(test, report);
	return report;
}

json_t *peers_probe(struct peers_link *coordinator, const struct peers_sockets *sockets,
		    const json_t *plan)
{
	const json_t *hosts = json_object_get(plan, "hosts");
	struct test test = {
		.sockets = sockets,
		.n = (unsigned)json_array_size(hosts),
		.own = (unsigned)json_integer_value(json_object_get(plan, "own")),
		.token = (uint32_t)json_integer_value(json_object_get(plan, "token")),
	};
	json_t *report;
	bool good;

	test.targets = calloc(test.n + 1, sizeof(*test.targets));
	good = test.targets != NULL && test.n <= PEERS_MAX && test.own < test.n;
	sml_udp_forbid_fragments(sockets->udp, sockets->v6);
	for (unsigned i = 0; good && i < test.n; i++)
		good = set_target(&test.targets[i], json_array_get(hosts, i), sockets);
	if (good)
		run_test(&test, coordinator);
	report = good ? make_report(&test) : json_array();
	for (unsigned i = 0; test.targets && i < test.n; i++)
		if (test.targets[i].tcp > 0)
			close(test.targets[i].tcp);
	free(test.targets);
	return report;
}
