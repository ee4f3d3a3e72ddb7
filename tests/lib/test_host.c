/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that ranks of one host share: its slots, its layout, and how ranks meet over it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "lib/host/meet.h"
#include "lib/host/slots.h"
#include "support/test.h"

#define LANES 32

static const struct sml_host_terms three_ranks = {
	.job = 7, .lanes = LANES, .head_slots = 2, .data_slots = 3, .n_ranks = 3};

/* ---- slots ---- */

static struct {
	struct sml_host hosts[3];
	void *bytes;
} world;

static void open_world(void)
{
	size_t bytes = sml_host_bytes(&three_ranks);

	memset(&world, 0, sizeof(world));
	world.bytes = aligned_alloc(4096, bytes);
	assert_non_null(world.bytes);
	memset(world.bytes, 0, bytes);
	for (uint8_t rank = 0; rank < 3; rank++) {
		sml_host_lay_out(&world.hosts[rank].memory, &three_ranks, world.bytes);
		world.hosts[rank].sleepers = world.hosts[rank].memory.head;
		world.hosts[rank].rank = rank;
	}
}

static void close_world(void)
{
	free(world.bytes);
}

static struct sml_contribution contribution(uint16_t slot, uint32_t use)
{
	return (struct sml_contribution){
		.slot = slot, .use = use, .digest = 100 + use, .lanes = LANES, .op = SML_LANE_SUM};
}

static uint32_t value_of(unsigned rank, unsigned slot, uint32_t use)
{
	return (rank + 1) * 1000003u * (use + 1) + slot;
}

static void write_row(struct sml_host *host, uint16_t slot, uint32_t use)
{
	uint32_t *row = sml_host_row(host, slot, use);

	for (unsigned i = 0; i < LANES; i++)
		row[i] = sml_be32(value_of(host->rank, slot, use) + i);
}

static void contribute(struct sml_host *host, uint16_t slot, uint32_t use)
{
	struct sml_contribution in = contribution(slot, use);

	write_row(host, slot, use);
	assert_int_equal(sml_host_arrive(host, &in, 1), host->rank);
}

static bool is_right(const struct sml_host *host, uint16_t slot, uint32_t use, uint32_t *ticket)
{
	const uint32_t *lanes = sml_host_result(host, slot, use, ticket);
	uint32_t sum = 0;

	for (unsigned rank = 0; rank < 3; rank++)
		sum += value_of(rank, slot, use);
	for (unsigned i = 0; i < LANES; i++)
		if (sml_be32(lanes[i]) != sum + 3 * i)
			return false;
	return true;
}

TEST_WITH(a_buffer_is_added_up_once_by_whoever_claims_it, open_world, close_world)
{
	struct sml_contribution in = contribution(4, 0);
	uint32_t ticket;
	uint8_t differs = 0xff;

	contribute(&world.hosts[2], 4, 0);
	contribute(&world.hosts[0], 4, 0);
	assert_int_equal(sml_host_look(&world.hosts[0], 4, 0), SML_HOST_FILLING);
	contribute(&world.hosts[1], 4, 0);
	assert_int_equal(sml_host_look(&world.hosts[0], 4, 0), SML_HOST_FULL);
	assert_true(sml_host_add(&world.hosts[0], &in, false, &differs));
	assert_int_equal(sml_host_look(&world.hosts[2], 4, 0), SML_HOST_DONE);
	assert_false(sml_host_add(&world.hosts[1], &in, false, &differs));
	assert_true(is_right(&world.hosts[1], 4, 0, &ticket));
	/* The data stream's first ticket that is drawn: its slots have the ones before. */
	assert_int_equal(ticket, 3);
	assert_int_equal(differs, 0xff);
}

TEST_WITH(another_belief_is_found_and_named, open_world, close_world)
{
	struct sml_contribution in = contribution(0, 0);

	contribute(&world.hosts[1], 0, 0);
	in.digest++;
	write_row(&world.hosts[2], 0, 0);
	assert_int_equal(sml_host_arrive(&world.hosts[2], &in, 1), 1);
	contribute(&world.hosts[0], 0, 0);
	/* It has not arrived, so nothing is ever added up. */
	assert_int_equal(sml_host_look(&world.hosts[0], 0, 0), SML_HOST_FILLING);
}

/* Equal digests and other lanes: a broken rank, which must not make others read beyond a row. */
TEST_WITH(rows_of_another_shape_are_not_added, open_world, close_world)
{
	struct sml_contribution in = contribution(0, 0);
	uint8_t differs = 0xff;

	contribute(&world.hosts[1], 0, 0);
	contribute(&world.hosts[2], 0, 0);
	in.lanes = 8;
	assert_int_equal(sml_host_arrive(&world.hosts[0], &in, 1), 0);
	in.lanes = LANES;
	assert_false(sml_host_add(&world.hosts[1], &in, false, &differs));
	assert_int_equal(differs, 0);
	assert_int_equal(sml_host_look(&world.hosts[1], 0, 0), SML_HOST_CLAIMED);
}

/* Each rank's third of the bytes; nobody writes a row. */
static void place(struct sml_host *host, uint32_t use)
{
	struct sml_contribution in = contribution(3, use);
	uint8_t *bytes = sml_host_result_row(host, 3, use);

	memset(bytes + 40 * host->rank, 16 * (int)host->rank + (int)use, 40);
	assert_int_equal(sml_host_arrive(host, &in, 1), host->rank);
}

TEST_WITH(placed_bytes_are_the_result_and_nothing_is_added, open_world, close_world)
{
	uint32_t ticket;
	uint8_t differs = 0xff;

	for (uint32_t use = 0; use < 5; use++) {
		struct sml_contribution in = contribution(3, use);
		const uint8_t *result;

		for (unsigned rank = 0; rank < 3; rank++)
			place(&world.hosts[rank], use);
		assert_true(sml_host_add(&world.hosts[1], &in, true, &differs));
		result = sml_host_result(&world.hosts[2], 3, use, &ticket);
		for (unsigned i = 0; i < 120; i++)
			assert_int_equal(result[i], 16 * (i / 40) + use);
		assert_int_equal(ticket, 3 + use);
	}
	assert_int_equal(differs, 0xff);
}

/* Placing or not is part of what the ranks agree about: the digest is of the call. */
TEST_WITH(placed_bytes_of_another_call_are_told, open_world, close_world)
{
	struct sml_contribution in = contribution(3, 0);

	place(&world.hosts[0], 0);
	in.digest++;
	assert_int_equal(sml_host_arrive(&world.hosts[1], &in, 1), 0);
	place(&world.hosts[2], 0);
	assert_int_equal(sml_host_look(&world.hosts[0], 3, 0), SML_HOST_FILLING);
}

TEST(long_waits_shorten_the_looking_and_short_ones_restore_it)
{
	struct sml_host host = {.spin_ns = 200000, .patience_ns = 200000};

	for (unsigned i = 0; i < 12; i++)
		sml_host_note_wait(&host, 3000000, false);
	assert_true(host.patience_ns < 1000);
	sml_host_note_wait(&host, 20000, false);
	assert_in_range(host.patience_ns, 40000, 60000);
	for (unsigned i = 0; i < 20; i++)
		sml_host_note_wait(&host, 20000, false);
	assert_in_range(host.patience_ns, 190000, 200000);
	sml_host_note_wait(&host, 200001, false);
	assert_true(host.patience_ns <= 100000);
}

/* Of a wait that began 1 ms ago: when the rank went to sleep, and when it was woken. */
static uint64_t patience_after(uint64_t slept_us, uint64_t woken_us)
{
	struct sml_host_head *head = calloc(1, sizeof(*head));
	uint64_t since_ns = sml_now_ns() - 1000000;
	struct sml_host host = {.sleepers = head,
				.spin_ns = 200000,
				.patience_ns = 100000,
				.slept_ns = since_ns + 1000 * slept_us};

	assert_non_null(head);
	head->ranks[0].woken_ns = since_ns + 1000 * woken_us;
	sml_host_note_news(&host, since_ns);
	free(head);
	return host.patience_ns;
}

TEST(what_shortens_the_looking_is_when_the_news_came_and_on_whose_core)
{
	/* The rank has noticed only now what looking would have found after 150 us. */
	assert_int_equal(patience_after(100, 150), 125000);
	/* The rank that made the news got this one's core. */
	assert_int_equal(patience_after(100, 110), 50000);
	assert_int_equal(patience_after(100, 300), 50000);
}

TEST_WITH(the_ranks_that_are_missing_are_known, open_world, close_world)
{
	uint64_t missing;
	uint32_t use;

	assert_false(sml_host_newest(&world.hosts[0], 1, &use, &missing));
	contribute(&world.hosts[1], 1, 0);
	assert_true(sml_host_newest(&world.hosts[0], 1, &use, &missing));
	assert_int_equal(use, 0);
	assert_int_equal(missing, 1 | 4);
	contribute(&world.hosts[0], 1, 1);
	assert_true(sml_host_newest(&world.hosts[2], 1, &use, &missing));
	assert_int_equal(use, 1);
	assert_int_equal(missing, 2 | 4);
}

#define USES 2000

struct stream {
	unsigned rank;
	bool wrong;
	uint32_t tickets[USES];
};

static void finish(struct stream *stream, uint16_t slot, uint32_t use)
{
	struct sml_host *host = &world.hosts[stream->rank];
	struct sml_contribution in = contribution(slot, use);
	uint8_t differs = host->rank;

	for (;;) {
		enum sml_host_state now = sml_host_look(host, slot, use);

		if (now == SML_HOST_DONE)
			break;
		if (now != SML_HOST_FULL || !sml_host_add(host, &in, false, &differs)) {
			uint32_t ready = sml_host_get_ready(host);

			now = sml_host_look(host, slot, use);
			if (now != SML_HOST_DONE && now != SML_HOST_FULL)
				sml_host_sleep(host, ready, 20000000);
			sml_host_wake_up(host);
		}
		sml_host_wake_sleepers(host);
	}
	stream->wrong |= !is_right(host, slot, use, &stream->tickets[use]) || differs != host->rank;
}

static void *run_stream(void *self)
{
	struct stream *stream = self;

	for (uint32_t use = 0; use < USES; use++) {
		contribute(&world.hosts[stream->rank], 3, use);
		finish(stream, 3, use);
	}
	return NULL;
}

TEST_WITH(ranks_that_race_get_the_same_sums_and_tickets, open_world, close_world)
{
	static struct stream streams[3];
	pthread_t threads[3];

	for (unsigned rank = 0; rank < 3; rank++) {
		streams[rank] = (struct stream){.rank = rank};
		pthread_create(&threads[rank], NULL, run_stream, &streams[rank]);
	}
	for (unsigned rank = 0; rank < 3; rank++)
		pthread_join(threads[rank], NULL);
	for (unsigned rank = 0; rank < 3; rank++) {
		assert_false(streams[rank].wrong);
		assert_memory_equal(streams[rank].tickets, streams[0].tickets,
				    sizeof(streams[0].tickets));
	}
	for (uint32_t use = 0; use < USES; use++)
		assert_int_equal(streams[0].tickets[use], three_ranks.data_slots + use);
}

TEST(slots_are_few_and_at_most_those_of_the_job)
{
	struct sml_host_terms terms = {.lanes = SML_MAX_LANES, .n_ranks = 64};

	sml_host_choose_slots(&terms, 64, 192);
	assert_true(terms.head_slots >= 1 && terms.data_slots >= 4);
	assert_true(sml_host_bytes(&terms) < 16u << 20);
	terms = (struct sml_host_terms){.lanes = 32, .n_ranks = 2};
	sml_host_choose_slots(&terms, 1, 1);
	assert_int_equal(terms.head_slots, 1);
	assert_int_equal(terms.data_slots, 1);
}

/* ---- memory ---- */

static int new_memfd(size_t bytes, int seals)
{
	int fd = memfd_create("test_host", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

TEST(memory_that_could_shrink_or_is_another_is_refused)
{
	struct sml_host_terms terms = three_ranks, other;
	struct sml_host_memory memory, second;
	size_t bytes = sml_host_bytes(&terms);
	int fd;

	fd = new_memfd(bytes, F_SEAL_GROW);
	assert_int_equal(sml_host_map(&memory, &terms, fd), -EPROTO);
	close(fd);
	fd = new_memfd(bytes + 4096, F_SEAL_GROW | F_SEAL_SHRINK);
	assert_int_equal(sml_host_map(&memory, &terms, fd), -EPROTO);
	close(fd);
	fd = new_memfd(bytes, F_SEAL_GROW | F_SEAL_SHRINK);
	assert_int_equal(sml_host_map(&memory, &terms, fd), -EPROTO);
	close(fd);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(sml_host_map(&memory, &terms, fd), -EPROTO);
	close(fd);

	fd = sml_host_create(&memory, &terms);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 0), -1);
	other = terms;
	other.proof++;
	assert_int_equal(sml_host_map(&second, &other, fd), -EPROTO);
	assert_int_equal(sml_host_map(&second, &terms, fd), 0);
	second.head->tickets[SML_DATA].value = 77;
	assert_int_equal(memory.head->tickets[SML_DATA].value, 77);
	sml_host_unmap(&second);
	sml_host_unmap(&memory);
	close(fd);
}

/* The kernel would end a process that allocates more than its limit on files (ulimit -f). */
TEST(memory_beyond_the_limit_on_files_is_an_error)
{
	struct sml_host_memory memory = {.head = NULL};
	const struct sml_meet_group group = {.ranks = 7};
	const struct sml_host_listener listener = {.fd = -1};
	struct rlimit before, low;
	struct sml_host_handshake *handshake;
	int fd, error;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	low = (struct rlimit){sml_host_bytes(&three_ranks) - 1, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	fd = sml_host_create(&memory, &three_ranks);
	handshake = sml_host_handshake_new(&three_ranks, &group, 0, &listener);
	error = errno;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(fd, -EFBIG);
	assert_null(memory.head);
	/* People are told the reason. */
	assert_null(handshake);
	assert_int_equal(error, EFBIG);
}

/* ---- handshake ---- */

#define RANKS 3

static struct party {
	struct sml_host_listener listeners[RANKS];
	struct sml_meet_group group;
	struct sml_host_handshake *handshakes[RANKS];
} party;

static void open_party(void)
{
	party = (struct party){.group = {.ranks = (1 << RANKS) - 1}};
	for (unsigned rank = 0; rank < RANKS; rank++) {
		assert_int_equal(sml_host_listen(&party.listeners[rank]), 0);
		memcpy(party.group.tokens[rank], party.listeners[rank].token, SML_HOST_TOKEN_BYTES);
	}
}

static void begin_handshake(unsigned rank)
{
	party.handshakes[rank] =
		sml_host_handshake_new(&three_ranks, &party.group, rank, &party.listeners[rank]);
	assert_non_null(party.handshakes[rank]);
}

static void close_party(void)
{
	for (unsigned rank = 0; rank < RANKS; rank++) {
		sml_host_handshake_free(party.handshakes[rank]);
		sml_host_close_listener(&party.listeners[rank]);
	}
}

/* Until it has an answer, or the others must act first. */
static int step(unsigned rank)
{
	int result = 0;

	for (unsigned i = 0; i < 20 && result == 0; i++)
		result = sml_host_handshake_step(party.handshakes[rank]);
	return result;
}

TEST_WITH(ranks_meet_and_share_the_memory, open_party, close_party)
{
	struct sml_host_memory memory[RANKS];
	int leader_fd;

	for (unsigned rank = 0; rank < RANKS; rank++)
		begin_handshake(rank);
	assert_int_equal(step(1), 0);
	assert_int_equal(step(0), 0);
	assert_int_equal(step(1), 1);
	assert_int_equal(step(2), 0);
	assert_int_equal(step(0), 0);
	assert_int_equal(step(2), 1);
	assert_int_equal(step(0), 1);
	for (unsigned rank = 0; rank < RANKS; rank++) {
		memory[rank] = sml_host_handshake_take(party.handshakes[rank], &leader_fd);
		assert_int_equal(leader_fd, -1);
	}
	memory[2].head->tickets[SML_HEAD].value = 4711;
	assert_int_equal(memory[0].head->tickets[SML_HEAD].value, 4711);
	assert_int_equal(memory[1].head->tickets[SML_HEAD].value, 4711);
	for (unsigned rank = 0; rank < RANKS; rank++)
		sml_host_unmap(&memory[rank]);
}

TEST_WITH(a_rank_that_cannot_find_the_leader_fails_at_once, open_party, close_party)
{
	sml_host_close_listener(&party.listeners[0]);
	begin_handshake(1);
	assert_int_equal(step(1), -ECONNREFUSED);
}

TEST_WITH(a_rank_that_goes_away_ends_the_leaders_wait, open_party, close_party)
{
	begin_handshake(0);
	begin_handshake(1);
	assert_int_equal(step(1), 0);
	assert_int_equal(step(0), 0);
	sml_host_handshake_free(party.handshakes[1]);
	party.handshakes[1] = NULL;
	assert_int_equal(step(0), -ECONNRESET);
}

static int call_at(const struct sml_host_listener *listener)
{
	struct sockaddr_un name;
	socklen_t length = sizeof(name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(getsockname(listener->fd, (struct sockaddr *)&name, &length), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&name, length), 0);
	return fd;
}

/* One who has found the name of the socket, but not a rank's token. */
TEST_WITH(a_stranger_gets_no_memory_and_disturbs_nobody, open_party, close_party)
{
	struct sml_meet_message hello = {.magic = 0x534d4c48u, .kind = SML_MEET_HELLO, .job = 7};
	char answer[128];
	int fds[3];

	for (unsigned rank = 0; rank < RANKS; rank++)
		begin_handshake(rank);
	for (unsigned i = 0; i < 3; i++) {
		hello.rank = i;
		fds[i] = call_at(&party.listeners[0]);
		assert_int_equal(send(fds[i], &hello, i == 2 ? 3 : sizeof(hello), 0),
				 i == 2 ? 3 : sizeof(hello));
	}
	assert_int_equal(step(0), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(recv(fds[i], answer, sizeof(answer), 0), 0);
		close(fds[i]);
	}
	assert_int_equal(step(1), 0);
	assert_int_equal(step(2), 0);
	assert_int_equal(step(0), 0);
	assert_int_equal(step(1), 1);
	assert_int_equal(step(2), 1);
	assert_int_equal(step(0), 1);
}

/* Any bytes: only those of a member with its token are a Hello. */
TEST(no_other_bytes_are_a_hello)
{
	struct sml_meet_group group = {.ranks = 7};
	struct sml_meet_message hello = {
		.magic = 0x534d4c48u, .kind = SML_MEET_HELLO, .job = 7, .rank = 2};
	uint8_t bytes[sizeof(hello)];
	unsigned seed = 1;

	for (unsigned rank = 0; rank < 3; rank++)
		for (unsigned i = 0; i < SML_HOST_TOKEN_BYTES; i++)
			group.tokens[rank][i] = (uint8_t)(rank * 16 + i);
	memcpy(hello.token, group.tokens[2], SML_HOST_TOKEN_BYTES);
	assert_int_equal(sml_meet_check_hello(&group, 7, 0, &hello, sizeof(hello)), 2);
	for (size_t n = 0; n < sizeof(hello); n++)
		assert_true(sml_meet_check_hello(&group, 7, 0, &hello, n) < 0);
	/* The proof's bytes mean nothing in a Hello; any other flipped bit makes it none. */
	for (size_t bit = 0; bit < 8 * offsetof(struct sml_meet_message, proof); bit++) {
		int rank;

		memcpy(bytes, &hello, sizeof(hello));
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		rank = sml_meet_check_hello(&group, 7, 0, bytes, sizeof(bytes));
		/* Kind 1 with another bit can be kind 3. */
		if (rank != 2 || bytes[4] != SML_MEET_PROOF)
			assert_true(rank < 0);
	}
	for (unsigned i = 0; i < 20000; i++) {
		for (size_t byte = 0; byte < sizeof(bytes); byte++)
			bytes[byte] = (uint8_t)rand_r(&seed);
		assert_true(sml_meet_check_hello(&group, 7, 0, bytes, i % (sizeof(bytes) + 1)) < 0);
	}
	hello.rank = 0;
	memcpy(hello.token, group.tokens[0], SML_HOST_TOKEN_BYTES);
	assert_true(sml_meet_check_hello(&group, 7, 0, &hello, sizeof(hello)) < 0);
}

TEST(this_machine_has_an_identity)
{
	char first[SML_HOST_MACHINE_BYTES], second[SML_HOST_MACHINE_BYTES];

	sml_host_machine(first);
	sml_host_machine(second);
	assert_true(strlen(first) > 36);
	assert_string_equal(first, second);
}
