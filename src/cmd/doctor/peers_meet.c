/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 of `switchml doctor --peers`: gathers the ranks, and takes them through the checks. */
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/doctor/peers.h"
#include "cmd/shared/status_client.h"
#include "control/text.h"
#include "lib/settings/settings.h"

#define MAX_STRANGERS 128
#define TIME_ROUNDS   5
#define ANSWER_MS     10000
#define NOTICE_NS     (5 * SML_NS_PER_SEC) /* then ever less often */
#define PROBE_MS      6000
#define REPORT_MS     45000
#define TRIAL_MS      40000
#define ASK_MS	      3000

/* ---- gathering ---- */

/* Anybody can connect: its texts are printed, and its ports go to all ranks. -1: not one of us. */
static int rank_of(json_t *hello)
{
	const char *name, *version, *host, *machine;
	int rank, udp, tcp;

	if (json_unpack(hello, "{s:i, s:s, s:s, s:s, s:s, s:i, s:i}", "rank", &rank, "name", &name,
			"version", &version, "host", &host, "machine", &machine, "udp", &udp, "tcp",
			&tcp) < 0 ||
	    !json_object_get(hello, "switchml") || !sml_text_is_clean(name) ||
	    !sml_text_is_clean(version))
		return -1;
	return rank;
}

/* Takes the hello over if it is one of ours. False: it is not, or the rank has come already. */
static bool admit(struct peers *peers, struct peers_link *link, json_t *hello)
{
	int rank = rank_of(hello);

	if (rank < 0 || rank >= (int)peers->n_ranks)
		return false;
	if (peers->ranks[rank].hello) {
		doctor_say(peers->doctor, DOCTOR_PROBLEM, "ranks",
			   "two processes are rank %d: on %s and on %s", rank,
			   peers_text(peers, (unsigned)rank, "name"),
			   json_string_value(json_object_get(hello, "name")));
		doctor_fix(peers->doctor, "start each rank once, each with a different number");
		return false;
	}
	peers->ranks[rank].link = *link;
	peers->ranks[rank].hello = hello;
	return true;
}

static unsigned count_here(const struct peers *peers)
{
	unsigned n = 0;

	for (unsigned i = 0; i < peers->n_ranks; i++)
		n += peers->ranks[i].hello != NULL;
	return n;
}

static void accept_one(struct peers_link *strangers, unsigned *n, int listen_fd)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (*n == MAX_STRANGERS) { /* the oldest has said nothing for long */
		peers_link_close(&strangers[0]);
		memmove(strangers, strangers + 1, (MAX_STRANGERS - 1) * sizeof(*strangers));
		--*n;
	}
	strangers[(*n)++] = (struct peers_link){.fd = fd};
}

/* Reads what strangers say; who has said hello is a rank. */
static void hear_strangers(struct peers *peers, struct peers_link *strangers, unsigned *n)
{
	for (unsigned i = 0; i < *n;) {
		json_t *hello = peers_link_take(&strangers[i]);
		bool admitted = hello && admit(peers, &strangers[i], hello);

		if (hello && !admitted) {
			json_decref(hello);
			peers_link_close(&strangers[i]);
		}
		if (admitted || strangers[i].fd < 0)
			strangers[i] = strangers[--*n];
		else
			i++;
	}
}

static void tell_wait(const struct peers *peers, uint64_t left_ns)
{
	unsigned missing = 0;

	while (missing < peers->n_ranks && peers->ranks[missing].hello)
		missing++;
	fprintf(stderr,
		"switchml doctor: %u of %u ranks have come; waiting %.0f s more for rank %u%s\n",
		count_here(peers), peers->n_ranks, (double)left_ns / 1e9, missing,
		count_here(peers) + 1 < peers->n_ranks ? " and others" : "");
}

static void gather(struct peers *peers, int listen_fd, unsigned wait_s)
{
	uint64_t deadline_ns = sml_now_ns() + wait_s * SML_NS_PER_SEC;
	uint64_t pause_ns = NOTICE_NS, next_ns = sml_now_ns() + pause_ns;
	struct peers_link strangers[MAX_STRANGERS];
	struct pollfd news[MAX_STRANGERS + 1];
	unsigned n = 0;

	while (count_here(peers) < peers->n_ranks && sml_now_ns() < deadline_ns) {
		news[0] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
		for (unsigned i = 0; i < n; i++)
			news[i + 1] = (struct pollfd){.fd = strangers[i].fd, .events = POLLIN};
		poll(news, n + 1, 100);
		if (sml_now_ns() >= next_ns && next_ns < deadline_ns) {
			tell_wait(peers, deadline_ns - next_ns);
			pause_ns *= 2;
			next_ns += pause_ns;
		}
		if (news[0].revents)
			accept_one(strangers, &n, listen_fd);
		hear_strangers(peers, strangers, &n);
	}
	for (unsigned i = 0; i < n; i++)
		peers_link_close(&strangers[i]);
	for (unsigned i = 0; i < peers->n_ranks; i++)
		if (!peers->ranks[i].hello) {
			doctor_say(peers->doctor, DOCTOR_PROBLEM, "ranks",
				   "rank %u of %u did not connect within %u s", i, peers->n_ranks,
				   wait_s);
			doctor_fix(peers->doctor,
				   "start it; look at its output; set SWITCHML_MASTER_ADDR to "
				   "this host on all ranks; let firewalls pass TCP to port %d here "
				   "(SWITCHML_MASTER_PORT)",
				   peers->config->master_port);
		}
}

/* ---- hosts ---- */

static void set_address(struct peers_rank *rank, bool own)
{
	union sml_sockaddr address = {0};
	socklen_t length = sizeof(address);
	char text[INET6_ADDRSTRLEN];

	if (own)
		getsockname(rank->link.fd, &address.any, &length);
	else
		getpeername(rank->link.fd, &address.any, &length);
	snprintf(rank->address, sizeof(rank->address), "%s", sml_sockaddr_text(&address, text));
}

/* What other hosts know this one by: the address to which their ranks have connected. */
static void set_own_address(struct peers *peers, struct peers_rank *rank)
{
	for (unsigned i = 0; i < peers->n_ranks; i++) {
		struct peers_rank *other = &peers->ranks[i];

		if (other->hello && other->host != 0) {
			struct peers_rank seen = {.link = other->link};

			set_address(&seen, true);
			memcpy(rank->address, seen.address, sizeof(rank->address));
			return;
		}
	}
}

static void find_hosts(struct peers *peers)
{
	for (unsigned i = 0; i < peers->n_ranks; i++) {
		struct peers_rank *rank = &peers->ranks[i];
		unsigned host = 0;

		if (!rank->hello)
			continue;
		set_address(rank, false);
		while (host < peers->n_hosts &&
		       strcmp(peers_text(peers, peers->hosts[host].rank, "host"),
			      peers_text(peers, i, "host")) != 0)
			host++;
		if (host == peers->n_hosts)
			peers->hosts[peers->n_hosts++].rank = i;
		rank->host = host;
	}
	for (unsigned i = 0; i < peers->n_ranks; i++)
		if (peers->ranks[i].hello && peers->ranks[i].host == peers->ranks[0].host)
			set_own_address(peers, &peers->ranks[i]);
}

/* ---- questions ---- */

static bool request_report(struct peers_rank *rank, json_t *wish)
{
	if (rank->hello && rank->link.fd >= 0)
		return peers_link_send(&rank->link, wish);
	json_decref(wish);
	return false;
}

/*
 * The next answer with this member; what comes before it is late, and skipped. Who says other
 * things for ever has not answered in time.
 */
static json_t *answer_of(struct peers_rank *rank, const char *member, uint64_t deadline_ns)
{
	json_t *message;

	do {
		message = rank->hello && rank->link.fd >= 0
				  ? peers_link_receive(&rank->link, deadline_ns)
				  : NULL;
		if (!message || json_object_get(message, member))
			return message;
		json_decref(message);
	} while (sml_now_ns() < deadline_ns);
	return NULL;
}

static double realtime_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The fastest answer of some tells the offset best. */
static void compare_clock(struct peers_rank *rank)
{
	rank->error_ms = 1e9;
	for (int i = 0; i < TIME_ROUNDS; i++) {
		double before = realtime_ms(), after, theirs = 0;
		json_t *said;

		if (!request_report(rank, json_pack("{s:s}", "do", "time")))
			return;
		said = answer_of(rank, "time_ms", sml_now_ns() + ANSWER_MS * SML_NS_PER_MS);
		after = realtime_ms();
		if (said && json_unpack(said, "{s:F}", "time_ms", &theirs) == 0 &&
		    (after - before) / 2 < rank->error_ms) {
			rank->error_ms = (after - before) / 2;
			rank->offset_ms = theirs - (before + after) / 2;
		}
		json_decref(said);
	}
}

/* ---- every pair of hosts ---- */

static json_t *plan(const struct peers *peers, unsigned own, uint32_t token)
{
	json_t *hosts = json_array();

	for (unsigned i = 0; i < peers->n_hosts; i++) {
		const struct peers_rank *rank = &peers->ranks[peers->hosts[i].rank];

		json_array_append_new(
			hosts, json_pack("{s:s, s:s, s:O, s:O}", "name",
					 peers_text(peers, peers->hosts[i].rank, "name"), "address",
					 rank->address, "udp", json_object_get(rank->hello, "udp"),
					 "tcp", json_object_get(rank->hello, "tcp")));
	}
	return json_pack("{s:s, s:i, s:I, s:o}", "do", "probe", "own", (int)own, "token",
			 (json_int_t)token, "hosts", hosts);
}

/* Until all hosts have heard all others, or the time is up. */
static void await_completion(struct peers *peers)
{
	uint64_t deadline_ns = sml_now_ns() + PROBE_MS * SML_NS_PER_MS;

	for (unsigned i = 0; i < peers->n_hosts; i++)
		json_decref(
			answer_of(&peers->ranks[peers->hosts[i].rank], "complete", deadline_ns));
}

static void probe(struct peers *peers)
{
	uint64_t deadline_ns;
	uint32_t token = 0;

	if (getrandom(&token, sizeof(token), 0) < 0)
		token = (uint32_t)getpid();
	for (unsigned i = 0; i < peers->n_hosts; i++)
		request_report(&peers->ranks[peers->hosts[i].rank], plan(peers, i, token));
	await_completion(peers);
	for (unsigned i = 0; i < peers->n_hosts; i++)
		request_report(&peers->ranks[peers->hosts[i].rank],
			       json_pack("{s:s}", "do", "stop"));
	deadline_ns = sml_now_ns() + REPORT_MS * SML_NS_PER_MS;
	for (unsigned i = 0; i < peers->n_hosts; i++) {
		struct peers_rank *rank = &peers->ranks[peers->hosts[i].rank];

		rank->report = answer_of(rank, "report", deadline_ns);
	}
}

/*
 * One host after the other: each looks whether the switch's count of strange packets grows by its
 * own.
 */
static void check_switches(struct peers *peers)
{
	for (unsigned i = 0; i < peers->n_hosts && !peers->embedded; i++) {
		struct peers_rank *rank = &peers->ranks[peers->hosts[i].rank];

		if (request_report(rank, json_pack("{s:s}", "do", "switch")))
			rank->at_switch =
				answer_of(rank, "switch", sml_now_ns() + REPORT_MS * SML_NS_PER_MS);
	}
}

/* ---- the trial: the job itself ---- */

/* Does the error only say that another rank has failed? */
static bool is_consequence(int error)
{
	return error == SML_ERROR_RANK_DIED || error == SML_ERROR_ABORTED ||
	       error == SML_ERROR_SWITCH_DIED || error == SML_ERROR_CLOSED;
}

/* Asks all, then hears all. The first cause becomes a finding. False: there was an error. */
static bool all_do(struct peers *peers, const char *wish, const char *job, double *ms)
{
	uint64_t deadline_ns = sml_now_ns() + TRIAL_MS * SML_NS_PER_MS;
	char cause[256] = "";
	int worst = 0;

	for (unsigned i = 0; i < peers->n_ranks; i++)
		request_report(&peers->ranks[i], json_pack("{s:s, s:s}", "do", wish, "job", job));
	for (unsigned i = 0; i < peers->n_ranks; i++) {
		json_t *said = answer_of(&peers->ranks[i], "error", deadline_ns);
		const char *text = "it has ended, or does not answer";
		double took = 0;
		int error = SML_ERROR_RANK_DIED;

		if (said)
			(void)json_unpack(said, "{s:i, s:s, s?F}", "error", &error, "text", &text,
					  "ms", &took);
		*ms = took > *ms ? took : *ms;
		if (error && (worst == 0 || (is_consequence(worst) && !is_consequence(error)))) {
			worst = error;
			snprintf(cause, sizeof(cause), "rank %u: %.230s", i, text);
		}
		json_decref(said);
	}
	if (worst) {
		doctor_say(peers->doctor, DOCTOR_PROBLEM, "trial", "%s", cause);
		doctor_fix(peers->doctor, "see docs/errors.md");
	}
	return worst == 0;
}

static void try_out(struct peers *peers)
{
	char name[64];
	uint32_t random = 0;
	double ms = 0, ignored = 0;
	bool good;

	(void)!getrandom(&random, sizeof(random), 0);
	snprintf(name, sizeof(name), "doctor-%08x", random);
	good = all_do(peers, "open", name, &ms);
	if (good && all_do(peers, "close", name, &ignored))
		doctor_say(peers->doctor, DOCTOR_OK, "trial",
			   "%u ranks have opened a job %s and summed 256 KiB, with the right "
			   "result, in "
			   "%.0f ms",
			   peers->n_ranks, peers->embedded ? "without a switch" : "at the switch",
			   ms);
}

static bool has_problems(const struct doctor *doctor)
{
	for (unsigned i = 0; i < doctor->n; i++)
		if (doctor->findings[i].level == DOCTOR_PROBLEM)
			return true;
	return false;
}

/* Rank 0: everything, from the first hello to the findings. */
static void meet(struct peers *peers, int listen_fd, unsigned wait_s)
{
	gather(peers, listen_fd, wait_s);
	close(listen_fd); /* the trial needs the port */
	find_hosts(peers);
	for (unsigned i = 0; i < peers->n_ranks; i++)
		compare_clock(&peers->ranks[i]);
	peers_judge_ranks(peers);
	probe(peers);
	check_switches(peers);
	peers_judge_pairs(peers);
	if (has_problems(peers->doctor))
		doctor_say(peers->doctor, DOCTOR_WARNING, "trial",
			   "left out, because there are problems");
	else
		try_out(peers);
	for (unsigned i = 0; i < peers->n_ranks; i++) {
		request_report(&peers->ranks[i], json_pack("{s:s}", "do", "end"));
		peers_link_close(&peers->ranks[i].link);
	}
}

/* ---- the command ---- */

/* Rank 0 is a rank like the others, in a separate process. */
static int run_rank_0(struct peers *peers, unsigned wait_s)
{
	const struct sml_port_range port = {(uint16_t)peers->config->master_port,
					    (uint16_t)peers->config->master_port};
	int fd, error = peers_open(SOCK_STREAM, &port, &fd);
	pid_t child;

	if (error < 0) {
		fprintf(stderr,
			"switchml doctor: rank 0 cannot listen on port %d, where the ranks meet: "
			"%s. "
			"Set SWITCHML_MASTER_PORT to another port, the same on all ranks\n",
			peers->config->master_port, strerror(-error));
		return 1;
	}
	child = fork();
	if (child == 0) {
		close(fd);
		_exit(peers_rank_run(peers->config, "localhost", wait_s));
	}
	meet(peers, fd, wait_s);
	if (child > 0)
		waitpid(child, NULL, 0);
	return -1;
}

int peers_run(struct peers *peers, unsigned wait_s)
{
	const struct sml_config *config = peers->config;

	peers->n_ranks = (unsigned)config->world_size;
	peers->embedded = !config->switch_address || !*config->switch_address ||
			  strcasecmp(config->switch_address, "embedded") == 0;
	for (unsigned i = 0; i < PEERS_MAX; i++)
		peers->ranks[i].link.fd = -1;
	if (config->world_size < 2 || config->world_size > PEERS_MAX ||
	    config->rank >= config->world_size) {
		fprintf(stderr,
			"switchml doctor: --peers needs the ranks of a job, 2 to %d: start it as "
			"the "
			"job is started, with torchrun, mpirun or srun\n",
			PEERS_MAX);
		return 2;
	}
	if (sml_launcher_hides_rank_0(config)) {
		fprintf(stderr,
			"switchml doctor: rank %d: there are ranks on other hosts, and the address "
			"of rank 0's host is not known: set SWITCHML_MASTER_ADDR on all ranks "
			"(mpirun -x SWITCHML_MASTER_ADDR=HOST)\n",
			config->rank);
		return 2;
	}
	if (config->rank == 0)
		return run_rank_0(peers, wait_s);
	return peers_rank_run(config, config->master_address, wait_s);
}
