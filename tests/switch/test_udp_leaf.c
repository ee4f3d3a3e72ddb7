/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UDP dataplane of a leaf, with one rank below it, and its parent: sockets of this test. A
 * stranger knows what every child of the parent knows, but is elsewhere.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "job/dataplane.h"
#include "support/packet.h"
#include "support/ranks.h"
#include "support/test.h"
#include "switch/dataplane.h"

#define JOB	      7u
#define EPOCH	      3u
#define LANES	      8u
#define TAG	      0x1111111111111111u
#define COOKIE	      0x2222222222222222u
#define PARENT_TAG    0x3333333333333333u
#define PARENT_COOKIE 0x4444444444444444u
#define PARENT_RANK   5

static const struct sml_dataplane_operations *const udp = &sml_dataplane_udp;

struct packet {
	struct sml_header header;
	uint32_t lanes_be[LANES];
};

struct world {
	struct sml_dataplane *leaf;
	int rank, parent, stranger; /* connected to the leaf */
};

static int connect_to(uint16_t port)
{
	const struct timeval patience = {.tv_sec = 20};
	struct sockaddr_in leaf = {.sin_family = AF_INET,
				   .sin_port = htons(port),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&leaf, sizeof(leaf)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	return fd;
}

static void ignore_probed(void *self)
{
	(void)self;
}

static void open_world(struct world *world, const char *address)
{
	uint16_t port = (uint16_t)free_port();
	const struct sml_dataplane_config config = {.port = port,
						    .address = address,
						    .n_threads = 1,
						    .max_jobs = 8,
						    .max_slots = 8,
						    .on_probed = ignore_probed};
	const struct sml_pool_rules rules = {.tag = TAG,
					     .job = JOB,
					     .epoch = EPOCH,
					     .head_slots = 1,
					     .data_slots = 1,
					     .lanes = LANES,
					     .n_ranks = 1,
					     .n_shards = 1,
					     .is_leaf = true,
					     .parent = {.cookie = PARENT_COOKIE,
							.tag = PARENT_TAG,
							.job = JOB,
							.rank = PARENT_RANK},
					     .cookies = {COOKIE}};

	assert_int_equal(udp->open(&world->leaf, &config), 0);
	world->rank = connect_to(port);
	world->parent = connect_to(port);
	world->stranger = connect_to(port);
	assert_int_equal(udp->add_job(world->leaf, &rules), 0);
}

static void close_world(struct world *world)
{
	udp->remove_job(world->leaf, JOB);
	udp->close(world->leaf);
	close(world->rank);
	close(world->parent);
	close(world->stranger);
}

static void say(int fd, uint8_t kind, uint64_t key, uint32_t lane)
{
	struct packet packet = {.header = packet_header(kind, JOB, EPOCH, key, LANES)};

	packet.header.slot_be = sml_be16(1);
	for (unsigned i = 0; i < LANES; i++)
		packet.lanes_be[i] = sml_be32(lane);
	if (kind == SML_PACKET_RESULT)
		packet.header.rank = PARENT_RANK;
	assert_int_equal(send(fd, &packet, sizeof(packet), 0), sizeof(packet));
}

static struct packet hear(int fd)
{
	struct packet packet;

	assert_int_equal(recv(fd, &packet, sizeof(packet), 0), sizeof(packet));
	return packet;
}

/* Then the leaf has processed all that was said before: it answers in order. */
static void wait_for_leaf(const struct world *world)
{
	say(world->rank, SML_PACKET_PROBE, COOKIE, 0);
	assert_int_equal(hear(world->rank).header.kind, SML_PACKET_PROBE_REPLY);
}

static void probe_parent(struct world *world)
{
	struct sockaddr_in own;
	union sml_sockaddr parent = {0};
	socklen_t length = sizeof(own);

	assert_int_equal(getsockname(world->parent, (struct sockaddr *)&own, &length), 0);
	parent.v4 = own;
	udp->set_parent(world->leaf, &parent);
	udp->probe_parent(world->leaf, JOB, ntohs(own.sin_port), LANES, 0);
	assert_int_equal(hear(world->parent).header.kind, SML_PACKET_PROBE);
}

static void check_answers_to_probes(struct world *world)
{
	say(world->parent, SML_PACKET_PROBE_REPLY, PARENT_TAG, 0);
	wait_for_leaf(world);
	/* It has not asked yet. */
	assert_int_equal(udp->parent_lanes(world->leaf, JOB), 0);
	probe_parent(world);
	say(world->stranger, SML_PACKET_PROBE_REPLY, PARENT_TAG, 0);
	wait_for_leaf(world);
	assert_int_equal(udp->parent_lanes(world->leaf, JOB), 0);
	say(world->parent, SML_PACKET_PROBE_REPLY, PARENT_TAG, 0);
	wait_for_leaf(world);
	assert_int_equal(udp->parent_lanes(world->leaf, JOB), LANES);
}

static void check_results(struct world *world)
{
	struct packet packet;

	assert_int_equal(udp->start_job(world->leaf, JOB), 0);
	say(world->rank, SML_PACKET_CONTRIBUTION, COOKIE, 1);
	packet = hear(world->parent);
	assert_int_equal(packet.header.kind, SML_PACKET_CONTRIBUTION);
	assert_true(packet.header.key_be == sml_be64(PARENT_COOKIE));
	say(world->stranger, SML_PACKET_RESULT, PARENT_TAG, 666);
	say(world->parent, SML_PACKET_RESULT, PARENT_TAG, 42);
	packet = hear(world->rank);
	assert_int_equal(packet.header.kind, SML_PACKET_RESULT);
	assert_int_equal(sml_be32(packet.lanes_be[0]), 42);
}

TEST(only_what_comes_from_the_parent_is_taken)
{
	static const char *const addresses[] = {NULL, "127.0.0.1"};
	struct world world;

	for (unsigned i = 0; i < 2; i++) {
		open_world(&world, addresses[i]);
		check_answers_to_probes(&world);
		check_results(&world);
		close_world(&world);
	}
}
