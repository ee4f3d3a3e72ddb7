/* SPDX-License-Identifier: BSD-3-Clause */
/* A line under a flood: its timers run, whatever arrives at the socket. */
#include "lib/progress/line.h"
#include "support/test.h"

#include <stdlib.h>

struct flood {
	struct sml_transport base;
	bool ends;
};

/* Always junk that is not accepted as a packet. */
static unsigned receive_junk(struct sml_transport *transport, struct sml_packet *packets)
{
	static uint32_t junk;

	transport->drained = ((struct flood *)transport)->ends;
	packets[0] = (struct sml_packet){.bytes = &junk, .length = sizeof(junk)};
	return 1;
}

static unsigned receive_nothing(struct sml_transport *transport, struct sml_packet *packets)
{
	(void)packets;
	transport->drained = true;
	return 0;
}

/* The number of timer checks in 1,000 receives. */
static unsigned looks_of(unsigned (*receive)(struct sml_transport *, struct sml_packet *),
			 bool ends)
{
	const struct sml_transport_ops ops = {.receive = receive};
	struct flood flood = {.base = {.ops = &ops}, .ends = ends};
	struct sml_line *line = calloc(1, sizeof(*line));
	static struct sml_packet packets[4096];
	struct sml_wakeups wakeups = {0};
	unsigned looks = 0;

	assert_non_null(line);
	line->transport = &flood.base;
	for (unsigned i = 0; i < 1000; i++) {
		bool busy = sml_line_receive(line, packets, 1000 * i, &wakeups);

		looks += sml_line_may_expire(line, busy);
	}
	free(line);
	return looks;
}

TEST(timers_run_though_the_socket_is_never_empty)
{
	assert_in_range(looks_of(receive_junk, false), 10, 100);
}

/* Between two results, the next one may not have been read yet. */
TEST(timers_wait_while_results_come)
{
	assert_int_equal(looks_of(receive_junk, true), 0);
}

TEST(timers_run_when_nothing_comes)
{
	assert_int_equal(looks_of(receive_nothing, true), 1000);
}
