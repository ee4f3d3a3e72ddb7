/* SPDX-License-Identifier: BSD-3-Clause */
/* See exhaustion_rank.h. */
#include "faults/exhaustion_rank.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "faults/exhaustion_calls.h"

#define COUNT 5000

char last_errors[2][160];
pthread_barrier_t begin;

void lie(struct body *body, const char *what, int result, const char *text)
{
	if (!body->complaint[0])
		snprintf(body->complaint, sizeof(body->complaint),
			 "rank %d: %.160s: %d, \"%.160s\"", body->rank, what, result, text);
}

static int32_t value_of(int rank, int i)
{
	return (rank + 1) * 1000003 + i * 7;
}

/* 0: the call returned 0, and the sums are correct. */
static int reduce(struct body *body, struct sml_context *context)
{
	static _Thread_local int32_t in[COUNT], out[COUNT];
	int result;

	for (int i = 0; i < COUNT; i++) {
		in[i] = value_of(body->rank, i);
		out[i] = -1;
	}
	result = sml_allreduce(context, in, out, COUNT, SML_INT32, SML_SUM, NULL, NULL);
	for (int i = 0; result == 0 && i < COUNT; i++) {
		int32_t sum = 0;

		for (int rank = 0; rank < body->job.n_ranks; rank++)
			sum += value_of(rank, i);
		if (out[i] != sum)
			lie(body, "a wrong sum", i, "");
	}
	return result;
}

/* All ranks have made a call, and none has begun the next one. */
static void lose_switch(const struct body *body)
{
	pthread_barrier_wait(&begin);
	if (body->rank == 0)
		body->loses();
	pthread_barrier_wait(&begin);
}

/* sml_event_fd() makes a descriptor, too. */
static int call(struct body *body, struct sml_context *context)
{
	int result = reduce(body, context), fd;

	if (body->loses)
		lose_switch(body);
	fd = result == 0 ? sml_event_fd(context) : 0;
	if (fd < 0)
		return fd;
	if (result == 0)
		result = sml_barrier(context, NULL, NULL);
	return result ? result : reduce(body, context);
}

/* Log messages are checked here and not printed. */
static void configure_quietly(struct sml_config *config, const struct job *job, int rank)
{
	configure(config, job, rank);
	config->debug = 0;
}

static int call_all(struct body *body, struct sml_context *context)
{
	const struct job alone = {.n_ranks = 1,
				  .name = body->rank == 0 ? "rank 0 alone" : "rank 1 alone",
				  .switch_address = body->job.switch_address,
				  .timeout_ms = body->job.timeout_ms,
				  .heartbeat_ms = body->job.heartbeat_ms};
	struct calls_complaint complaint = {""};
	struct sml_config config = SML_CONFIG_INIT;
	int result = calls_make_all(context, &complaint);

	CALL(sml_config_init, &config);
	configure_quietly(&config, &alone, 0);
	calls_abort_own_job(&config, &complaint);
	if (complaint.text[0])
		snprintf(body->complaint, sizeof(body->complaint), "%s", complaint.text);
	return result;
}

void run_body(struct body *body)
{
	struct sml_context *context = NULL;
	struct sml_config config = SML_CONFIG_INIT;

	configure_quietly(&config, &body->job, body->rank);
	/* The text of an earlier failure must not pass for this one's. */
	sml_error_set(0, "%s", "");
	body->opened = sml_open(&context, &config);
	if (body->opened) {
		snprintf(last_errors[body->rank], sizeof(last_errors[0]), "%s",
			 sml_error_text(NULL));
		if (body->opened > 0 || context || !sml_error_text(NULL)[0])
			lie(body, "open", body->opened, sml_error_text(NULL));
		if (body->loses)
			lose_switch(body);
		return;
	}
	if (body->calls) {
		body->reduced = body->calls_all ? call_all(body, context) : call(body, context);
		if (body->reduced && (body->reduced > 0 || !sml_error_text(context)[0]))
			lie(body, "all-reduce", body->reduced, sml_error_text(context));
	} else {
		usleep((TIMEOUT_MS + 100) * 1000);
	}
	if (body->reduced)
		snprintf(last_errors[body->rank], sizeof(last_errors[0]), "%s",
			 sml_error_text(context));
	body->closed = sml_close(context);
	if (body->closed > 0 || (body->closed && !sml_error_text(NULL)[0]))
		lie(body, "close", body->closed, sml_error_text(NULL));
}
