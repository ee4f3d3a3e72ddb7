/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 of `switchml doctor --peers`: gathers the ranks, and takes them through the checks. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cmd/doctor/peers.h"
#include "control/channel.h"
#include "control/text.h"

#define MAX_STRANGERS 128
#define TIME_ROUNDS   5
#define NOTICE_NS     (5 * SML_NS_PER_SEC) /* then ever less often */
#define LOOK_MS	      20
#define TIME_MS	      2000 /* a slower answer would tell nothing */
#define ANSWER_MS     10000
#define PROBE_MS      6000
#define SWITCHES_MS   45000
#define TRIAL_MS      40000
#define LONGEST_BYTES (512u << 10) /* a task has the Hellos of all hosts */

const struct sml_rules peers_rules = {
	.states = (const char *const[]){"before its hello", "after its hello", "from rank 0"},
	.messages =
		{
			[SML_CONTROL__ENVELOPE__BODY_HELLO] = {1u << PEERS_STRANGER,
							       SML_HEAD_BYTES},
			[SML_CONTROL__ENVELOPE__BODY_DONE] = {1u << PEERS_RANK, LONGEST_BYTES},
			[SML_CONTROL__ENVELOPE__BODY_TASK] = {1u << PEERS_RANK_0, LONGEST_BYTES},
			[SML_CONTROL__ENVELOPE__BODY_ABORT] = {1u << PEERS_RANK_0, SML_HEAD_BYTES},
		},
};

/* Takes the message out of its envelope, and frees that. */
static void *unwrap(SmlControl__Envelope *envelope)
{
	void *message = envelope->hello; /* all are pointers */

	envelope->body_case = SML_CONTROL__ENVELOPE__BODY__NOT_SET;
	sml_control__envelope__free_unpacked(envelope, NULL);
	return message;
}

/* ---- gathering ---- */

/* The address of an end of the connection, as a text. */
static const char *address_of(const struct sml_talk *talk, bool own, char *text)
{
	union sml_sockaddr address = {0};
	socklen_t length = sizeof(address);

	(void)(own ? getsockname : getpeername)(talk->fd, &address.any, &length);
	return sml_sockaddr_text(&address, text);
}

/* Takes the Hello over if it is of a rank. False: it is not, or the rank has come already. */
static bool admit(struct peers *peers, const struct sml_talk *talk, SmlControl__Hello *hello)
{
	struct peers_rank *rank = &peers->ranks[hello->rank % PEERS_MAX];

	/* Anybody can connect: its texts are printed. */
	if (hello->rank >= peers->n_ranks || !sml_text_is_clean(hello->name) ||
	    !sml_text_is_clean(hello->version) || *hello->address)
		return false;
	if (rank->hello) {
		doctor_say(peers->doctor, DOCTOR_PROBLEM, "ranks",
			   "two processes are rank %u: on %s and on %s", hello->rank,
			   rank->hello->name, hello->name);
		doctor_fix(peers->doctor, "start each rank once, each with a different number");
		return false;
	}
	rank->talk = *talk;
	rank->talk.state = PEERS_RANK;
	rank->hello = hello;
	peers->n_here++;
	return true;
}

/* If TLS is not used as rank 0 uses it, both ends are told. */
static void refuse(struct peers *peers, struct sml_talk *stranger)
{
	const bool plain = !peers->tls || sml_tls_peer_is_plain(stranger->stream.tls);
	SmlControl__Abort abort = SML_CONTROL__ABORT__INIT;
	char address[INET6_ADDRSTRLEN];
	const char *why = "it uses a job key or certificates, and rank 0 does not";

	if (peers->tls)
		why = sml_tls_reason(stranger->stream.tls);
	else if (!sml_tls_is_hello(stranger->stream.in))
		return;
	if (!*why)
		return;
	snprintf(peers->refused, sizeof(peers->refused), "the connection of %s was refused: %s",
		 address_of(stranger, false, address), why);
	if (!plain)
		return;
	abort.error = SML_ERROR_TLS;
	abort.text = (char *)(uintptr_t)(peers->tls ? sml_tls_demand(peers->tls) : why);
	(void)sml_frame_write(stranger->stream.wire_out, sml_envelope(ABORT, abort, &abort));
	(void)sml_socket_send(stranger->fd, stranger->stream.wire_out, SIZE_MAX);
}

/* Reads what a stranger says; who has said hello is a rank. */
static void hear(struct peers *peers, struct sml_talk *stranger)
{
	SmlControl__Envelope *message;
	int got = stranger->fd >= 0 ? sml_talk_take(stranger, &message) : 0;
	SmlControl__Hello *hello;

	if (got < 0)
		refuse(peers, stranger);
	if (got > 0) {
		hello = unwrap(message);
		if (admit(peers, stranger, hello))
			*stranger = (struct sml_talk){.fd = -1};
		else
			sml_control__hello__free_unpacked(hello, NULL);
	}
	if (got != 0)
		sml_talk_close(stranger);
}

static void tell_wait(const struct peers *peers, uint64_t left_ns)
{
	unsigned missing = 0;

	while (missing < peers->n_ranks && peers->ranks[missing].hello)
		missing++;
	fprintf(stderr,
		"switchml doctor: %u of %u ranks have come; waiting %.0f s more for rank %u%s\n",
		peers->n_here, peers->n_ranks, (double)left_ns / 1e9, missing,
		peers->n_here + 1 < peers->n_ranks ? " and others" : "");
}

static void name_missing(const struct peers *peers, unsigned wait_s)
{
	for (unsigned i = 0; i < peers->n_ranks; i++) {
		if (peers->ranks[i].hello)
			continue;
		doctor_say(peers->doctor, DOCTOR_PROBLEM, "ranks",
			   "rank %u of %u did not connect within %u s", i, peers->n_ranks, wait_s);
		doctor_fix(peers->doctor,
			   "start it; look at its output; set SWITCHML_MASTER_ADDR to this host on "
			   "all ranks; let firewalls pass TCP to port %d here "
			   "(SWITCHML_MASTER_PORT)",
			   peers->settings.config.master_port);
	}
	if (peers->refused[0] && peers->n_here < peers->n_ranks) {
		doctor_say(peers->doctor, DOCTOR_PROBLEM, "tls", "%s", peers->refused);
		doctor_fix(peers->doctor, "give all ranks the same key, or certificates of one "
					  "authority (docs/security.md)");
	}
}

static void gather(struct peers *peers, int listen_fd, unsigned wait_s)
{
	uint64_t deadline_ns = sml_now_ns() + wait_s * SML_NS_PER_SEC;
	uint64_t pause_ns = NOTICE_NS, next_ns = sml_now_ns() + pause_ns;
	static struct sml_talk strangers[MAX_STRANGERS];
	unsigned n_came = 0;
	int fd;

	for (unsigned i = 0; i < MAX_STRANGERS; i++)
		strangers[i].fd = -1;
	while (peers->n_here < peers->n_ranks && sml_now_ns() < deadline_ns) {
		struct pollfd news = {.fd = listen_fd, .events = POLLIN};
		/* Those that never say hello keep no rank out. */
		struct sml_talk *oldest = &strangers[n_came % MAX_STRANGERS];

		poll(&news, 1, LOOK_MS);
		fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			n_came++;
			sml_talk_close(oldest);
			if (sml_talk_open(oldest, fd, peers->tls, NULL, "a rank", &peers_rules))
				sml_talk_close(oldest);
		}
		if (sml_now_ns() >= next_ns && next_ns < deadline_ns) {
			tell_wait(peers, deadline_ns - next_ns);
			pause_ns *= 2;
			next_ns += pause_ns;
		}
		for (unsigned i = 0; i < MAX_STRANGERS; i++)
			hear(peers, &strangers[i]);
	}
	for (unsigned i = 0; i < MAX_STRANGERS; i++)
		sml_talk_close(&strangers[i]);
	name_missing(peers, wait_s);
}

/* ---- hosts ---- */

/*
 * What the others know it by: of this host, which is the first, the address to which another has
 * connected. If another has the same name, the address is part of it.
 */
static void name_host(struct peers *peers, unsigned host)
{
	const bool own = host == 0 && peers->ranks[0].hello && peers->n_hosts > 1;
	const struct sml_talk *talk = &peers_speaker(peers, own ? 1 : host)->talk;
	SmlControl__Hello *hello = peers_speaker(peers, host)->hello;
	char text[INET6_ADDRSTRLEN], *copy = strdup(address_of(talk, own, text));
	bool twice = false;

	if (copy)
		hello->address = copy;
	for (unsigned i = 0; i < peers->n_hosts; i++)
		twice |=
			i != host && strcmp(hello->name, peers_speaker(peers, i)->hello->name) == 0;
	snprintf(peers->hosts[host].name, sizeof(peers->hosts[host].name),
		 twice ? "%.60s at %.60s" : "%.127s", hello->name, hello->address);
}

/* The ranks say what the library would: "" is a rank that shares memory with nobody. */
static bool shares_memory(const struct peers_rank *a, const struct peers_rank *b)
{
	return a == b || (a->hello && *a->hello->machine &&
			  strcmp(a->hello->machine, b->hello->machine) == 0);
}

static void find_hosts(struct peers *peers)
{
	for (unsigned i = 0; i < peers->n_ranks; i++) {
		struct peers_rank *rank = &peers->ranks[i];

		while (rank->hello && rank->host < peers->n_hosts &&
		       peers_speaker(peers, rank->host)->hello->host != rank->hello->host)
			rank->host++;
		if (rank->hello && rank->host == peers->n_hosts)
			peers->hosts[peers->n_hosts++].rank = i;
		while (rank->hello && !shares_memory(&peers->ranks[rank->memory], rank))
			rank->memory++;
	}
	for (unsigned i = 0; i < peers->n_hosts; i++)
		name_host(peers, i);
}

/* ---- tasks ---- */

static double realtime_ms(void)
{
	return (double)sml_clock_ns(CLOCK_REALTIME) / 1e6;
}

static void ask(struct peers_rank *rank, SmlControl__Task *task)
{
	task->number = ++rank->asked;
	if (rank->talk.fd >= 0 && sml_talk_send(&rank->talk, sml_envelope(TASK, task, task)) != 0)
		sml_talk_close(&rank->talk);
}

/*
 * NULL: it has ended, or has not answered in time, which others may have used up: what has come is
 * taken. An answer that comes late is skipped later.
 */
static SmlControl__Done *answer_of(struct peers_rank *rank, uint64_t until_ns)
{
	SmlControl__Envelope *message;
	SmlControl__Done *done;
	int error = -ETIMEDOUT;

	/* One answer for each task: it may say other things for ever. */
	for (unsigned i = 0; rank->talk.fd >= 0 && i < rank->asked; i++) {
		error = sml_talk_receive(&rank->talk, until_ns, &message);
		if (error)
			break;
		done = unwrap(message);
		sml_text_clean_message(&done->base);
		if (done->number == rank->asked)
			return done;
		sml_control__done__free_unpacked(done, NULL);
	}
	if (error != -ETIMEDOUT)
		sml_talk_close(&rank->talk);
	return NULL;
}

/* The fastest answer of some tells the offset best. Who is silent once is not asked again. */
static void compare_clock(struct peers_rank *rank)
{
	SmlControl__Task task = SML_CONTROL__TASK__INIT;

	rank->error_ms = 1e9;
	for (int i = 0; i < TIME_ROUNDS; i++) {
		double before = realtime_ms(), half;
		SmlControl__Done *done;

		ask(rank, &task);
		done = answer_of(rank, sml_now_ns() + TIME_MS * SML_NS_PER_MS);
		half = (realtime_ms() - before) / 2;
		if (!done)
			break;
		if (half < rank->error_ms && isfinite(done->time_ms)) {
			rank->error_ms = half;
			rank->offset_ms = done->time_ms - (before + half);
		}
		sml_control__done__free_unpacked(done, NULL);
	}
}

/*
 * One rank of each host, until all have heard all, or the time is up. Each is asked again when it
 * has answered: who is slow or silent holds up nobody, until the end.
 */
static void probe(struct peers *peers)
{
	SmlControl__Task task = SML_CONTROL__TASK__INIT;
	SmlControl__Hello *hosts[PEERS_MAX];
	uint64_t until_ns = sml_now_ns() + PROBE_MS * SML_NS_PER_MS;
	bool complete = false;

	task.what = SML_CONTROL__TASK__WHAT__PROBE;
	task.token = (uint32_t)peers->settings.process;
	task.hosts = hosts;
	task.n_hosts = peers->n_hosts;
	for (unsigned i = 0; i < peers->n_hosts; i++)
		hosts[i] = peers_speaker(peers, i)->hello;
	for (bool first = true; !complete && sml_now_ns() < until_ns; first = false) {
		complete = true;
		for (task.own = 0; task.own < peers->n_hosts; task.own++) {
			struct peers_rank *rank = &peers->ranks[peers->hosts[task.own].rank];
			SmlControl__Done *done = first ? NULL : answer_of(rank, 0);

			if (done) {
				sml_control__done__free_unpacked(rank->report, NULL);
				rank->report = done;
			}
			if (done || first)
				ask(rank, &task);
			complete = complete && rank->report && rank->report->complete;
		}
		poll(NULL, 0, LOOK_MS);
	}
	until_ns = sml_now_ns() + ANSWER_MS * SML_NS_PER_MS;
	for (unsigned i = 0; i < peers->n_hosts; i++) {
		struct peers_rank *rank = &peers->ranks[peers->hosts[i].rank];

		/* What it knew before it fell silent may have been little. */
		sml_control__done__free_unpacked(rank->report, NULL);
		rank->report = answer_of(rank, until_ns);
	}
}

/*
 * One host after the other: each looks whether the switch's count of strange packets grows by its
 * own.
 */
static void check_switches(struct peers *peers)
{
	SmlControl__Task task = SML_CONTROL__TASK__INIT;

	task.what = SML_CONTROL__TASK__WHAT__SWITCHES;
	for (unsigned i = 0; i < peers->n_hosts && !peers->embedded; i++) {
		struct peers_rank *rank = &peers->ranks[peers->hosts[i].rank];

		if (!rank->report)
			continue;
		ask(rank, &task);
		rank->at_switch = answer_of(rank, sml_now_ns() + SWITCHES_MS * SML_NS_PER_MS);
	}
}

/* Does the error only say that another rank has failed? */
static bool is_consequence(int error)
{
	return error == SML_ERROR_RANK_DIED || error == SML_ERROR_ABORTED ||
	       error == SML_ERROR_SWITCH_DIED || error == SML_ERROR_CLOSED;
}

/* The job itself. The first cause of a failure becomes a finding. */
static void try_out(struct peers *peers)
{
	SmlControl__Task task = SML_CONTROL__TASK__INIT;
	char name[64], cause[256] = "";
	uint64_t until_ns;
	double took_ms = 0;
	int worst = 0;

	snprintf(name, sizeof(name), "doctor-%016llx", (unsigned long long)peers->settings.process);
	task.what = SML_CONTROL__TASK__WHAT__TRIAL;
	task.job = name;
	for (unsigned i = 0; i < peers->n_ranks; i++)
		ask(&peers->ranks[i], &task);
	until_ns = sml_now_ns() + TRIAL_MS * SML_NS_PER_MS;
	for (unsigned i = 0; i < peers->n_ranks; i++) {
		SmlControl__Done *done = answer_of(&peers->ranks[i], until_ns);
		int error = done ? done->error : SML_ERROR_RANK_DIED;

		if (done && isfinite(done->took_ms) && done->took_ms > took_ms)
			took_ms = done->took_ms;
		if (error && (worst == 0 || (is_consequence(worst) && !is_consequence(error)))) {
			worst = error;
			snprintf(cause, sizeof(cause), "rank %u: %.230s", i,
				 done ? done->text : "it has ended, or does not answer");
		}
		sml_control__done__free_unpacked(done, NULL);
	}
	if (worst) {
		doctor_say(peers->doctor, DOCTOR_PROBLEM, "trial", "%s", cause);
		doctor_fix(peers->doctor, "see docs/errors.md");
		return;
	}
	doctor_say(peers->doctor, DOCTOR_OK, "trial",
		   "%u ranks have opened a job %s and summed 256 KiB, with the right result, in "
		   "%.0f ms",
		   peers->n_ranks, peers->embedded ? "without a switch" : "at the switch", took_ms);
}

/* Rank 0: everything, from the first hello to the findings. */
static void meet(struct peers *peers, int listen_fd, unsigned wait_s)
{
	SmlControl__Task end = SML_CONTROL__TASK__INIT;

	gather(peers, listen_fd, wait_s);
	close(listen_fd); /* the trial needs the port */
	find_hosts(peers);
	for (unsigned i = 0; i < peers->n_hosts; i++)
		compare_clock(&peers->ranks[peers->hosts[i].rank]);
	peers_judge_ranks(peers);
	probe(peers);
	check_switches(peers);
	peers_judge_pairs(peers);
	if (doctor_problems(peers->doctor) > 0)
		doctor_say(peers->doctor, DOCTOR_WARNING, "trial",
			   "left out, because there are problems");
	else
		try_out(peers);
	end.what = SML_CONTROL__TASK__WHAT__END;
	for (unsigned i = 0; i < peers->n_ranks; i++) {
		ask(&peers->ranks[i], &end);
		sml_talk_close(&peers->ranks[i].talk);
	}
}

/* ---- the command ---- */

/* Rank 0 is a rank like the others, in a separate process. */
static int run_rank_0(struct peers *peers, unsigned wait_s)
{
	const uint16_t number = (uint16_t)peers->settings.config.master_port;
	const struct sml_port_range port = {number, number};
	int fd, error;
	pid_t child;

	if (sml_tls_open(&peers->tls, SML_TLS_SWITCH, &peers->settings.tls_files,
			 &sml_tls_variables) < 0) {
		fprintf(stderr, "switchml doctor: rank 0: %s\n", sml_error_last());
		return 1;
	}
	error = peers_open(SOCK_STREAM, &port, &fd);
	if (error < 0) {
		fprintf(stderr,
			"switchml doctor: rank 0 cannot listen on port %u, where the ranks meet: "
			"%s. Set SWITCHML_MASTER_PORT to another port, the same on all ranks\n",
			number, strerror(-error));
		return 1;
	}
	child = fork();
	if (child == 0) {
		close(fd);
		_exit(peers_rank_run(peers, "localhost", wait_s));
	}
	meet(peers, fd, wait_s);
	if (child > 0)
		waitpid(child, NULL, 0);
	sml_tls_close(peers->tls);
	return -1;
}

int peers_run(struct peers *peers, unsigned wait_s)
{
	const struct sml_config *config = peers->config;
	int status = 2;

	peers->n_ranks = (unsigned)config->world_size;
	for (unsigned i = 0; i < PEERS_MAX; i++)
		peers->ranks[i].talk.fd = -1;
	if (config->world_size < 2 || config->world_size > PEERS_MAX ||
	    config->rank >= config->world_size)
		fprintf(stderr,
			"switchml doctor: --peers needs the ranks of a job, 2 to %d: start it as "
			"the job is started, with torchrun, mpirun or srun\n",
			PEERS_MAX);
	else if (sml_launcher_hides_rank_0(config))
		fprintf(stderr,
			"switchml doctor: rank %d: there are ranks on other hosts, and the address "
			"of rank 0's host is not known: set SWITCHML_MASTER_ADDR on all ranks "
			"(mpirun -x SWITCHML_MASTER_ADDR=HOST)\n",
			config->rank);
	else if (sml_settings_init(&peers->settings, config) < 0)
		fprintf(stderr, "switchml doctor: rank %d: %s\n", config->rank, sml_error_last());
	else
		status = 0;
	peers->embedded = peers->settings.config.switch_address == NULL;
	if (status == 0)
		status = config->rank == 0
				 ? run_rank_0(peers, wait_s)
				 : peers_rank_run(peers, peers->settings.config.master_address,
						  wait_s);
	sml_settings_fini(&peers->settings);
	return status;
}
