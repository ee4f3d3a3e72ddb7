/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control server's event loop, turn by turn. Members of running jobs are served before
 * strangers, and strangers only a bounded amount at a time. There is one thread, and the
 * peers' connections are socket pairs. The test's own event, with the strangers' priority,
 * stops the loop when the test wants to look. The thread's CPU clock stands still, so a member is
 * served with the strangers only where a case says that it has used up its time.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "control/envelope.h"
#include "support/control_server.h"
#include "support/messages.h"
#include "support/test.h"

#define N_STRANGERS 100
/* As many 6-byte messages as are read at a time. */
#define N_PINGS 2700
/* Of the clock's first moment. */
#define PONG_BYTES 6

struct peer {
	int fd;
	struct evbuffer *in;
};

static struct sml_server *server;
static struct sml_watch *look;
static unsigned looks_left;
static bool pings_at_look;
static struct peer member, strangers[N_STRANGERS];

/* In place of libc's. */
int clock_gettime(clockid_t id, struct timespec *now)
{
	if (id != CLOCK_THREAD_CPUTIME_ID)
		return (int)syscall(SYS_clock_gettime, id, now);
	*now = (struct timespec){0};
	return 0;
}

/* ---- peers ---- */

static void connect_peer(struct peer *peer)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
			 0);
	peer->fd = fds[0];
	peer->in = evbuffer_new();
	assert_non_null(peer->in);
	sml_connection_open(server, fds[1]);
}

static void hang_up(struct peer *peer)
{
	if (peer->in == NULL)
		return;
	close(peer->fd);
	evbuffer_free(peer->in);
	peer->in = NULL;
}

static void say(const struct peer *peer, const SmlControl__Envelope *message)
{
	struct evbuffer *out = evbuffer_new();

	assert_int_equal(sml_frame_write(out, message), 0);
	assert_true(evbuffer_write(out, peer->fd) > 0);
	assert_int_equal(evbuffer_get_length(out), 0);
	evbuffer_free(out);
}

static void ping(const struct peer *peer)
{
	SmlControl__Ping message = SML_CONTROL__PING__INIT;

	say(peer, sml_envelope(PING, ping, &message));
}

static void ping_often(const struct peer *peer)
{
	static const char frame[] = {0, 0, 0, 2, 0x32, 0};
	char bytes[sizeof(frame) * N_PINGS];

	for (unsigned i = 0; i < N_PINGS; i++)
		memcpy(bytes + i * sizeof(frame), frame, sizeof(frame));
	assert_int_equal(send(peer->fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
}

/* The number of Pongs since the last time. */
static unsigned count_pongs(const struct peer *peer)
{
	SmlControl__Envelope *message;
	unsigned n = 0;

	while (evbuffer_read(peer->in, peer->fd, 65536) > 0)
		;
	while (sml_frame_read(peer->in, &message) == 1) {
		n += message->body_case == SML_CONTROL__ENVELOPE__BODY_PONG;
		sml_control__envelope__free_unpacked(message, NULL);
	}
	return n;
}

/* Answers to all strangers: those that arrived, and those that wait to be written. */
static unsigned count_answers(void)
{
	size_t unsent = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < N_STRANGERS; i++)
		n += count_pongs(&strangers[i]);
	for (struct sml_connection *c = server->connections; c != NULL; c = c->next)
		unsent += sml_stream_unsent_bytes(&c->channel.stream);
	return n + (unsigned)(unsent / PONG_BYTES);
}

/* ---- the loop ---- */

static void on_look(void *context, unsigned what)
{
	(void)what;
	(void)context;
	if (pings_at_look)
		ping(&member);
	pings_at_look = false;
	if (--looks_left == 0)
		sml_loop_stop(server->loop);
	else
		sml_watch_post(look);
}

/* Run until the test's event has had n turns among the strangers. */
static void run_until_look(unsigned n)
{
	looks_left = n;
	sml_watch_post(look);
	sml_loop_run(server->loop);
}

static void serve_all(void)
{
	for (unsigned i = 0; i < 10; i++)
		while (sml_loop_turn(server->loop, 0))
			;
}

/* A job of one rank that has its own slots: it needs no dataplane. */
static void start_member(void)
{
	SmlControl__Join join = honest_join("turns", 0, 1);
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;
	uint32_t stripe_port = 40000;

	join.stripes = 0;
	join.head_slots = 4;
	join.data_slots = 16;
	join.stripe_ports = &stripe_port;
	join.n_stripe_ports = 1;
	ready.lanes = 352;
	connect_peer(&member);
	say(&member, sml_envelope(JOIN, join, &join));
	serve_all();
	say(&member, sml_envelope(READY, ready, &ready));
	serve_all();
	assert_true(sml_peer_runs(&server->connections->peer));
	count_pongs(&member);
}

static void open_server(void)
{
	server = control_server_open();
	look = sml_watch_new(server->loop, -1, on_look, NULL);
	assert_non_null(look);
	sml_watch_set_class(look, SML_TURN_STRANGERS);
	start_member();
	for (unsigned i = 0; i < N_STRANGERS; i++)
		connect_peer(&strangers[i]);
	serve_all();
}

static void close_server(void)
{
	hang_up(&member);
	for (unsigned i = 0; i < N_STRANGERS; i++)
		hang_up(&strangers[i]);
	sml_watch_free(look);
	control_server_close(server);
}

/* ---- cases ---- */

TEST_WITH(member_is_served_before_strangers, open_server, close_server)
{
	for (unsigned i = 0; i < N_STRANGERS; i++)
		ping_often(&strangers[i]);
	ping(&member);
	run_until_look(1);
	assert_int_equal(count_answers(), 0);
	assert_int_equal(count_pongs(&member), 1);
}

/*
 * A hundred strangers have sent 2,700 messages each, which takes a second. The member sends
 * a message in the middle of that.
 */
TEST_WITH(member_does_not_wait_for_strangers_work, open_server, close_server)
{
	for (unsigned i = 0; i < N_STRANGERS; i++)
		ping_often(&strangers[i]);
	pings_at_look = true;
	run_until_look(2);
	assert_in_range(count_answers(), 1, 20 * N_STRANGERS);
	assert_int_equal(count_pongs(&member), 1);
}

static unsigned n_counted;

/* Longer than from one tick to the next. Meanwhile, the member sends a message. */
static void count_slowly(struct sml_dataplane *dataplane, uint32_t job,
			 struct sml_job_counters *counters)
{
	(void)dataplane;
	(void)job;
	(void)counters;
	usleep(2 * SML_TICK_NS / 1000);
	if (n_counted++ == 0)
		ping(&member);
}

/* A tick looks at the counters of a member that it has not heard: then it must hear it. */
TEST_WITH(member_is_served_between_slow_ticks, open_server, close_server)
{
	const struct sml_dataplane_operations *own = server->jobs.operations;
	struct sml_dataplane_operations slow = *own;
	struct sml_connection *quiet = server->connections;

	while (quiet->next != NULL) /* it came first */
		quiet = quiet->next;
	slow.ranks_have_slots = false;
	slow.job_counters = count_slowly;
	server->jobs.operations = &slow;
	n_counted = 0;
	quiet->peer.heard_ns -= quiet->peer.heartbeat_ms * 600000ull;
	for (unsigned i = 0; i < 10000 && n_counted == 0; i++) {
		run_until_look(1);
		usleep(1000);
	}
	run_until_look(1);
	server->jobs.operations = own;
	assert_int_equal(count_pongs(&member), 1);
	assert_true(n_counted > 0);
}

/* The remaining messages are also served. A turn is short, but serves one call or more. */
TEST_WITH(all_are_served_in_the_end, open_server, close_server)
{
	const unsigned most_turns = N_STRANGERS * (N_PINGS / SML_CHANNEL_TURN_MESSAGES + 2);
	unsigned n = 0;

	for (unsigned i = 0; i < N_STRANGERS; i++)
		ping_often(&strangers[i]);
	for (unsigned i = 0; i < most_turns && n < N_STRANGERS * N_PINGS; i++) {
		run_until_look(1);
		for (unsigned k = 0; k < N_STRANGERS; k++)
			n += count_pongs(&strangers[k]);
	}
	assert_int_equal(n, N_STRANGERS * N_PINGS);
	assert_int_equal(server->n_connections, N_STRANGERS + 1);
}

TEST_WITH(member_that_talks_too_much_waits_with_the_strangers, open_server, close_server)
{
	struct sml_connection *talker = server->connections;

	while (talker->next != NULL) /* it came first */
		talker = talker->next;
	assert_true(sml_peer_runs(&talker->peer));
	assert_int_equal(talker->class, SML_TURN_MEMBERS);
	/* On a busy machine, the tick that resets the count can come before the look. */
	for (unsigned i = 0; i < 100 && talker->class != SML_TURN_STRANGERS; i++) {
		talker->used_ns = SML_MEMBER_CPU_NS + 1;
		ping(&member);
		run_until_look(2);
	}
	assert_int_equal(talker->class, SML_TURN_STRANGERS);
	/* The next tick resets the count. */
	for (unsigned i = 0; i < 100 && talker->class != SML_TURN_MEMBERS; i++) {
		usleep(20000);
		while (sml_loop_turn(server->loop, 0))
			;
	}
	assert_int_equal(talker->class, SML_TURN_MEMBERS);
}

/* A flood of connections: some are accepted in each turn. */
TEST_WITH(connections_are_accepted_a_few_at_a_time, open_server, close_server)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	uint32_t before = server->n_connections;
	int fds[64];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons(server->port);
	for (unsigned i = 0; i < 64; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
	}
	run_until_look(2);
	assert_in_range(server->n_connections, before + 1, before + 16);
	for (unsigned i = 0; i < 100 && server->n_connections < before + 64; i++)
		run_until_look(1);
	assert_int_equal(server->n_connections, before + 64);
	for (unsigned i = 0; i < 64; i++)
		close(fds[i]);
}

/* A rank that joins stays, but leaves less room for newcomers. */
TEST_WITH(members_count_against_the_descriptors, open_server, close_server)
{
	struct peer late;

	assert_true(server->max_connections < UINT32_MAX);
	server->max_connections = 10;
	connect_peer(&late);
	serve_all();
	assert_int_equal(server->n_connections, 10);
	ping(&member);
	ping(&late);
	serve_all();
	assert_int_equal(count_pongs(&member), 1);
	assert_int_equal(count_pongs(&late), 1);
	server->max_connections = 1;
	hang_up(&late);
	connect_peer(&late);
	serve_all();
	assert_int_equal(server->n_connections, 1);
	ping(&member);
	serve_all();
	assert_int_equal(count_pongs(&member), 1);
	hang_up(&late);
}
