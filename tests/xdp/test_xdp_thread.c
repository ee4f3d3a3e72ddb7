/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets that the XDP dataplane's thread sends on from its socket. Some of them have
 * bypassed the program: fragments, IP options, and packets on other interfaces. Skipped if
 * BPF is not permitted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/packet.h"
#include "support/test.h"
#include "support/xdp_run.h"
#include "switch/xdp/thread.h"

#define JOB	   7u
#define EPOCH	   3u
#define TAG	   0x7a67u
#define COOKIE	   0xc00c1eu
#define DAEMON_KEY 0x1122334455667788u
/* Of a leaf. */
#define PARENT_TAG    0x9a7eu
#define PARENT_COOKIE 0xbeefu

static struct sml_xdp_maps *maps;

static struct {
	struct sml_dataplane *dataplane;
	int rank; /* its socket, connected to the daemon's */
} world;

static struct sml_xdp_user_job *job_of(void)
{
	return (struct sml_xdp_user_job *)world.dataplane->daemon.jobs[JOB];
}

static int open_socket(struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t length = sizeof(*address);

	*address = (struct sockaddr_in){.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)address, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)address, &length), 0);
	return fd;
}

/* A running job of one rank, whose results the daemon sends if it has a key. */
static void open_world(uint64_t daemon_key)
{
	struct sml_dataplane *dataplane = calloc(1, sizeof(*dataplane));
	struct sml_xdp_user_job *job = calloc(1, sizeof(*job));
	struct sockaddr_in own, rank;
	socklen_t length = sizeof(own);

	assert_non_null(dataplane);
	assert_non_null(job);
	sml_daemon_init(&dataplane->daemon, &(struct sml_dataplane_config){.address = "127.0.0.1"});
	assert_int_equal(sml_xdp_thread_open(dataplane), 0);
	assert_int_equal(getsockname(dataplane->daemon.fd, (struct sockaddr *)&own, &length), 0);
	world.rank = open_socket(&rank);
	assert_int_equal(connect(world.rank, (struct sockaddr *)&own, sizeof(own)), 0);
	dataplane->events = ring_buffer__new(sml_xdp_maps_events_fd(maps), sml_xdp_thread_event,
					     dataplane, NULL);
	assert_non_null(dataplane->events);
	dataplane->daemon.events_fd = ring_buffer__epoll_fd(dataplane->events);
	job->common.rules = (struct sml_pool_rules){.tag = TAG,
						    .job = JOB,
						    .epoch = EPOCH,
						    .head_slots = 1,
						    .data_slots = 1,
						    .lanes = 8,
						    .n_ranks = 1,
						    .n_shards = 1,
						    .cookies = {COOKIE}};
	job->common.daemon_key = daemon_key;
	dataplane->daemon.jobs[JOB] = &job->common;
	world.dataplane = dataplane;
	assert_int_equal(sml_daemon_start(&dataplane->daemon, &sml_xdp_thread_service), 0);
}

static void close_world(void)
{
	struct sml_dataplane *dataplane = world.dataplane;

	sml_daemon_stop(&dataplane->daemon);
	ring_buffer__free(dataplane->events);
	sml_daemon_fini(&dataplane->daemon);
	close(world.rank);
	free(dataplane);
}

static void say(uint8_t kind, uint64_t key)
{
	const struct sml_header header = packet_header(kind, JOB, EPOCH, key, 0);

	assert_int_equal(send(world.rank, &header, sizeof(header), 0), sizeof(header));
}

static struct sml_header hear(void)
{
	const struct timeval patience = {.tv_sec = 20};
	struct sml_header header;

	setsockopt(world.rank, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(recv(world.rank, &header, sizeof(header), 0), sizeof(header));
	return header;
}

/* The thread learns the path from the job's probe. From then on, the job runs. */
static void start_job(void)
{
	say(SML_PACKET_PROBE, COOKIE);
	assert_int_equal(hear().kind, SML_PACKET_PROBE_REPLY);
	pthread_mutex_lock(&world.dataplane->daemon.mutex);
	world.dataplane->daemon.jobs[JOB]->started = true;
	pthread_mutex_unlock(&world.dataplane->daemon.mutex);
}

/* Earlier packets had no effect: the next packet is the answer to this one. */
static void expect_nothing(void)
{
	say(SML_PACKET_PROBE, COOKIE);
	assert_int_equal(hear().kind, SML_PACKET_PROBE_REPLY);
}

static void say_all_results(uint64_t key)
{
	say(SML_PACKET_RESULT, key);
	say(SML_XDP_KIND_TO_RANK, key);
}

TEST_WITH(results_of_the_program_are_sent_on, NULL, close_world)
{
	open_world(DAEMON_KEY);
	start_job();
	for (int i = 0; i < 2; i++) {
		struct sml_header header;

		say(i == 0 ? SML_PACKET_RESULT : SML_XDP_KIND_TO_RANK, DAEMON_KEY);
		header = hear();
		assert_int_equal(header.kind, SML_PACKET_RESULT);
		assert_true(header.key_be == sml_be64(TAG));
	}
}

TEST(results_of_ranks_are_not_sent_on)
{
	static const uint64_t keys[] = {TAG, COOKIE, 0, DAEMON_KEY ^ 1};

	for (unsigned with_key = 0; with_key < 2; with_key++) {
		open_world(with_key ? DAEMON_KEY : 0);
		start_job();
		for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			say_all_results(keys[i]);
		expect_nothing();
		close_world();
	}
}

/* The rank's socket is the parent's, too. */
static void be_leaf(void)
{
	struct sml_xdp_user_job *job = job_of();
	socklen_t length = sizeof(job->parent);

	pthread_mutex_lock(&world.dataplane->daemon.mutex);
	job->common.rules.is_leaf = true;
	job->common.rules.parent = (struct sml_pool_parent){
		.cookie = PARENT_COOKIE, .tag = PARENT_TAG, .job = JOB, .rank = 5};
	assert_int_equal(getsockname(world.rank, &job->parent.any, &length), 0);
	pthread_mutex_unlock(&world.dataplane->daemon.mutex);
}

static bool knows_parent(void)
{
	bool knows;

	expect_nothing();
	pthread_mutex_lock(&world.dataplane->daemon.mutex);
	knows = job_of()->has_path[SML_XDP_PARENT][0];
	pthread_mutex_unlock(&world.dataplane->daemon.mutex);
	return knows;
}

TEST_WITH(a_leafs_sums_go_to_its_parent, NULL, close_world)
{
	struct sml_header header;

	open_world(DAEMON_KEY);
	be_leaf();
	say(SML_PACKET_PROBE_REPLY, PARENT_TAG);
	assert_true(knows_parent());
	start_job();
	say(SML_XDP_KIND_TO_RANK + SML_XDP_PARENT, PARENT_TAG);
	say(SML_XDP_KIND_TO_RANK + SML_XDP_PARENT, PARENT_COOKIE);
	expect_nothing();
	say(SML_XDP_KIND_TO_RANK + SML_XDP_PARENT, DAEMON_KEY);
	header = hear();
	assert_int_equal(header.kind, SML_PACKET_CONTRIBUTION);
	assert_true(header.key_be == sml_be64(PARENT_COOKIE));
}

TEST_WITH(a_parent_is_where_the_leaf_looks_for_it, NULL, close_world)
{
	struct sockaddr_in other;
	int rank, fd = open_socket(&other);

	open_world(0);
	be_leaf();
	say(SML_PACKET_PROBE_REPLY, TAG);
	assert_false(knows_parent());
	/* It knows the parent's tag, as every rank there does. */
	rank = world.rank;
	world.rank = fd;
	assert_int_equal(getpeername(rank, (struct sockaddr *)&other, &(socklen_t){sizeof(other)}),
			 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&other, sizeof(other)), 0);
	say(SML_PACKET_PROBE_REPLY, PARENT_TAG);
	assert_false(knows_parent());
	world.rank = rank;
	say(SML_PACKET_PROBE_REPLY, PARENT_TAG);
	assert_true(knows_parent());
	close(fd);
}

/* Only a leaf has a parent. */
TEST_WITH(a_switch_without_parent_sends_nothing_up, NULL, close_world)
{
	struct sml_xdp_user_job *job;

	open_world(DAEMON_KEY);
	start_job();
	pthread_mutex_lock(&world.dataplane->daemon.mutex);
	job = job_of();
	job->paths[SML_XDP_PARENT][0] = job->paths[0][0];
	pthread_mutex_unlock(&world.dataplane->daemon.mutex);
	say(SML_XDP_KIND_TO_RANK + SML_XDP_PARENT, DAEMON_KEY);
	say(SML_PACKET_PROBE_REPLY, TAG);
	expect_nothing();
}

int main(void)
{
	const struct sml_xdp_config config = {.port = FRAME_PORT, .max_jobs = 2, .max_slots = 64};
	int rc;

	maps = xdp_open_maps(&config);
	rc = test_run();
	sml_xdp_maps_close(maps);
	return rc;
}
