/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A million packets, in two jobs, from an attacker who does not know the cookies (attack.h),
 * to the switch's data port and to the workers' ports, while a job runs. Every result is
 * exact, every packet is dropped and counted, and the switch sends no byte to the attacker.
 *
 * SML_SEED=N replays an attack, SML_PACKETS=N sends another number. With CAP_NET_RAW, the
 * attacker sees the job's packets and spoofs addresses. Without it, the attacker cannot.
 */
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/context/context.h"
#include "lib/progress/line.h"
#include "support/attack.h"
#include "support/ranks.h"
#include "support/switch_client.h"
#include "support/test.h"

#define N_RANKS 3
#define COUNT	20000
#define SECONDS 12
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PACKETS 50000
#else
#define PACKETS 500000
#endif

static bool has_switch; /* false: every rank has a switch */
static uint16_t port;
static unsigned n_started;		/* atomic */
static bool attack_over;		/* atomic */
static uint64_t ignored;		/* atomic: by workers */
static uint64_t calls;			/* of rank 0 */
static uint64_t verdicts[SML_VERDICTS]; /* atomic: of the ranks' own stripes */
static struct attack_report report;
static uint64_t seed, n_packets = PACKETS;

/* ---- the job ---- */

static int32_t value_of(int rank, unsigned call, size_t i)
{
	return (int32_t)((unsigned)rank * 1000003u + call * 7919u + (unsigned)i * 31u);
}

static bool is_sum(const int32_t *values, unsigned call)
{
	for (size_t i = 1; i < COUNT; i++) {
		uint32_t sum = 0;

		for (int rank = 0; rank < N_RANKS; rank++)
			sum += (uint32_t)value_of(rank, call, i);
		if ((uint32_t)values[i] != sum)
			return false;
	}
	return true;
}

/* The first element says whether rank 0 has seen the end of the attack. */
static void sum_until_it_is_over(struct rank *rank)
{
	static int32_t values[N_RANKS][COUNT];
	struct sml_counters counters = {.size = sizeof(counters)};
	int32_t *own = values[rank->rank];

	for (unsigned call = 0; call == 0 || own[0] == 0; call++) {
		for (size_t i = 1; i < COUNT; i++)
			own[i] = value_of(rank->rank, call, i);
		own[0] = rank->rank == 0 && __atomic_load_n(&attack_over, __ATOMIC_SEQ_CST);
		CHECK(rank, sml_allreduce(rank->context, own, own, COUNT, SML_INT32, SML_SUM, NULL,
					  NULL) == 0);
		CHECK(rank, is_sum(own, call));
		if (call == 0)
			__atomic_fetch_add(&n_started, 1, __ATOMIC_SEQ_CST);
		if (rank->rank == 0)
			calls = call + 1;
	}
	sml_get_counters(rank->context, -1, &counters, NULL);
	__atomic_fetch_add(&ignored, counters.packets_ignored, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; rank->context->threads.own != NULL && i < SML_VERDICTS; i++)
		__atomic_fetch_add(
			&verdicts[i],
			__atomic_load_n(&rank->context->threads.own->verdicts[i], __ATOMIC_RELAXED),
			__ATOMIC_SEQ_CST);
}

/* ---- the attack ---- */

/* The job's UDP sockets are all in this process. The switch's socket has no peer. */
static void find_sockets(struct attack_target *target)
{
	struct sockaddr_in own, peer;
	socklen_t bytes;
	int type;

	for (int fd = 3; fd < 1024 && target->n_workers < ATTACK_WORKERS; fd++) {
		bytes = sizeof(type);
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) < 0 || type != SOCK_DGRAM)
			continue;
		bytes = sizeof(own);
		if (getsockname(fd, (struct sockaddr *)&own, &bytes) < 0 || own.sin_port == 0)
			continue;
		bytes = sizeof(peer);
		if (has_switch && getpeername(fd, (struct sockaddr *)&peer, &bytes) < 0)
			continue;
		/* The port is at the same offset in both families. */
		target->worker_ports[target->n_workers++] = ntohs(own.sin_port);
	}
}

/* Questions that any peer can ask a switch without TLS. */
static void learn(struct attack_target *target)
{
	SmlControl__Envelope *message = client_status("127.0.0.1", port);
	const SmlControl__JobStatus *job = message->status->jobs[0];

	*target = (struct attack_target){
		.job_number = job->job_number,
		.n_jobs = has_switch ? 1 : N_RANKS,
		.epoch = job->epoch,
		.n_ranks = (uint8_t)job->world_size,
		.slots = 320,
		.lanes = 352,
	};
	client_free(message);
	find_sockets(target);
	/*
	 * Without a separate switch, every rank has a stripe. One rank after another is attacked
	 * instead.
	 */
	target->switch_port = has_switch ? port : target->worker_ports[0];
}

static void *attacker_main(void *argument)
{
	struct attack_target target;

	(void)argument;
	for (int ms = 0; ms < 20000 && __atomic_load_n(&n_started, __ATOMIC_SEQ_CST) < N_RANKS;
	     ms += 10)
		usleep(10000);
	learn(&target);
	if (target.n_workers >= N_RANKS)
		attack(&target, seed, n_packets, SECONDS, &report);
	__atomic_store_n(&attack_over, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/* ---- effects of the attack ---- */

static uint64_t counted(const char *name)
{
	uint64_t value = client_counter(port, name);

	printf("  %-16s %" PRIu64 "\n", name, value);
	return value;
}

static void expect_dropped_and_counted(void)
{
	static const char *const reasons[] = {"malformed", "unknown-job", "wrong-epoch",
					      "wrong-cookie", "out-of-range"};
	uint64_t dropped = 0, by_kernel = counted("socket-drops");

	for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		uint64_t n = counted(reasons[i]);

		assert_true(n > 0);
		dropped += n;
	}
	/* All attack packets, and nearly none of the job's own, which may arrive after its end. */
	assert_true(dropped + by_kernel >= report.to_switch);
	assert_true(dropped <= report.to_switch + 100);
	assert_int_equal(client_counter(port, "mismatch"), 0);
}

/* A job under attack, at the running switch or at a switch in each rank. */
static void attack_job(const char *switch_address)
{
	struct job job = {.n_ranks = N_RANKS,
			  .switch_address = switch_address,
			  .body = sum_until_it_is_over,
			  .timeout_ms = 60000};
	pthread_t attacker;

	n_started = 0;
	attack_over = false;
	ignored = calls = 0;
	if (!has_switch)
		job.port = port = (uint16_t)free_port();
	assert_int_equal(pthread_create(&attacker, NULL, attacker_main, NULL), 0);
	run_job(&job);
	pthread_join(attacker, NULL);
	printf("seed %" PRIu64 ": %" PRIu64 " packets to the switch, %" PRIu64
	       " to workers, %" PRIu64 " of them made from %" PRIu64 " that were seen%s; %" PRIu64
	       " calls meanwhile; workers ignored %" PRIu64 "\n",
	       seed, report.to_switch, report.to_workers, report.of_seen, report.seen,
	       report.raw ? "" : " (no CAP_NET_RAW)", calls, ignored);
	/* All packets were sent, or at least a tenth if this machine is too slow. */
	assert_true(report.to_switch + report.to_workers >= n_packets / 10);
	assert_int_equal(report.answers, 0);
	assert_int_equal(report.strange_answers, 0);
	assert_true(calls > 2);
	assert_true(!report.raw || report.of_seen > 0);
}

TEST(a_million_hostile_packets_change_nothing)
{
	struct sml_switch_config config;
	char address[32];

	sml_switch_config_init(&config);
	config.listen = "127.0.0.1:0";
	port = client_open_switch(&config);
	has_switch = true;
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	attack_job(address);
	expect_dropped_and_counted();
	assert_true(ignored >= report.spoofed_to_workers / 4);
	client_close_switch();
	has_switch = false;
}

/* Sockets of ranks that embed the switch accept packets from all addresses. */
TEST(nor_where_every_rank_is_a_switch)
{
	uint64_t dropped = 0;

	attack_job("embedded");
	for (unsigned i = SML_VERDICT_MALFORMED; i < SML_VERDICTS; i++) {
		printf("  %-16s %" PRIu64 "\n", sml_verdict_name((enum sml_verdict)i), verdicts[i]);
		dropped += verdicts[i];
	}
	assert_int_equal(verdicts[SML_VERDICT_MISMATCH], 0);
	assert_true(verdicts[SML_VERDICT_WRONG_COOKIE] > 0);
	/* Results go to workers. A packet that is not whole gets no further than the socket. */
	assert_true(dropped + ignored > (report.to_switch + report.to_workers) / 4);
}

int main(void)
{
	const char *text = getenv("SML_SEED");

	seed = text != NULL ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
	if (getenv("SML_PACKETS") != NULL)
		n_packets = strtoull(getenv("SML_PACKETS"), NULL, 10);
	return test_run();
}
