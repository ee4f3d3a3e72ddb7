/* SPDX-License-Identifier: BSD-3-Clause */
/* See exhaustion_calls.h. */
#include "faults/exhaustion_calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define COUNT	     600
#define MOST_RANKS   2
#define MOST_NOTED   64
#define ROOTS_NUMBER 77
#define FOREVER	     (-1)

/* ---- which functions were called ---- */

static const char *noted[MOST_NOTED];
static unsigned n_noted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_noted(const char *function)
{
	for (unsigned i = 0; i < n_noted; i++)
		if (strcmp(noted[i], function) == 0)
			return true;
	return false;
}

void calls_note(const char *function)
{
	pthread_mutex_lock(&lock);
	if (!is_noted(function) && n_noted < MOST_NOTED)
		noted[n_noted++] = function;
	pthread_mutex_unlock(&lock);
}

const char *calls_find_missing(const char *exports)
{
	static char name[128];
	FILE *file = fopen(exports, "re");
	unsigned n = 0;
	bool missing = false;

	if (file == NULL)
		return exports;
	while (!missing && fscanf(file, "%127s", name) == 1) {
		name[strcspn(name, ";")] = '\0';
		if (strncmp(name, "sml_", 4) != 0)
			continue;
		n++;
		missing = !is_noted(name);
	}
	fclose(file);
	return missing ? name : n == 0 ? exports : NULL;
}

/* ---- what a call may return ---- */

struct calls {
	struct sml_context *context;
	int rank, n;
	int error; /* the first one */
	struct calls_complaint *complaint;
};

static void wrong(const struct calls *calls, const char *function, int result)
{
	if (calls->complaint->text[0] == '\0')
		snprintf(calls->complaint->text, sizeof(calls->complaint->text),
			 "rank %d: %.100s: %d, \"%.160s\"", calls->rank, function, result,
			 sml_error_text(calls->context));
}

static void check(struct calls *calls, const char *function, int result)
{
	if (result > 0 || (result < 0 && !CALL(sml_error_text, calls->context)[0]))
		wrong(calls, function, result);
	if (result < 0 && CALL(sml_strerror, result)[0] == '\0')
		wrong(calls, "sml_strerror", result);
	if (calls->error == 0)
		calls->error = result;
}

/* ---- collectives: begin, wait, and look at the results ---- */

enum { ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, REDUCE_SCATTER, BARRIER, KINDS };

static const char *const names[] = {"allreduce", "reduce",	   "broadcast",
				    "allgather", "reduce_scatter", "barrier"};

struct buffers {
	int32_t in[MOST_RANKS * COUNT], out[MOST_RANKS * COUNT];
};

static void fill(const struct calls *calls, unsigned kind, struct buffers *buffers)
{
	for (int i = 0; i < MOST_RANKS * COUNT; i++) {
		buffers->in[i] = calls->rank + 1;
		buffers->out[i] = kind == BROADCAST && calls->rank == 0 ? ROOTS_NUMBER : -1;
	}
}

/* request: NULL waits. */
static int begin(const struct calls *calls, unsigned kind, struct buffers *b,
		 const struct sml_options *options, struct sml_request **request)
{
	struct sml_context *context = calls->context;

	switch (kind) {
	case ALLREDUCE:
		return CALL(sml_allreduce, context, b->in, b->out, COUNT, SML_INT32, SML_SUM,
			    options, request);
	case REDUCE:
		return CALL(sml_reduce, context, b->in, b->out, COUNT, SML_INT32, SML_SUM, 0,
			    options, request);
	case BROADCAST:
		return CALL(sml_broadcast, context, b->out, COUNT, SML_INT32, 0, options, request);
	case ALLGATHER:
		return CALL(sml_allgather, context, b->in, b->out, COUNT, SML_INT32, options,
			    request);
	case REDUCE_SCATTER:
		return CALL(sml_reduce_scatter, context, b->in, b->out, COUNT, SML_INT32, SML_SUM,
			    options, request);
	default:
		return CALL(sml_barrier, context, options, request);
	}
}

/* In one of the ways that there are. */
static int finish(unsigned kind, struct sml_request *request)
{
	size_t index;
	int result;

	if (kind % 3 == 0)
		return CALL(sml_wait, &request, 1, FOREVER, NULL);
	if (kind % 3 == 1)
		return CALL(sml_wait, &request, 1, FOREVER, &index);
	while (result = CALL(sml_wait, &request, 1, 0, NULL), request)
		usleep(100);
	return result;
}

static int32_t expected(const struct calls *calls, unsigned kind, int i)
{
	if (kind == BROADCAST)
		return ROOTS_NUMBER;
	if (kind == ALLGATHER)
		return i / COUNT + 1;
	return calls->n * (calls->n + 1) / 2;
}

static void look_at_results(const struct calls *calls, unsigned kind, const struct buffers *buffers)
{
	const int n = kind == ALLGATHER ? calls->n * COUNT : COUNT;

	if (kind >= BARRIER || (kind == REDUCE && calls->rank != 0))
		return;
	for (int i = 0; i < n; i++)
		if (buffers->out[i] != expected(calls, kind, i))
			wrong(calls, names[kind], buffers->out[i]);
}

static void make_call(struct calls *calls, unsigned kind, bool waits)
{
	static _Thread_local struct buffers buffers;
	struct sml_options options = SML_OPTIONS_INIT;
	struct sml_request *request = NULL;
	int result;

	fill(calls, kind, &buffers);
	options.waits = kind % 4 == 0;
	options.name = kind % 2 == 0 ? names[kind] : NULL;
	result = begin(calls, kind, &buffers, &options, waits ? NULL : &request);
	if (result == 0 && !waits)
		result = finish(kind, request);
	check(calls, names[kind], result);
	if (result == 0)
		look_at_results(calls, kind, &buffers);
}

/* ---- the rest ---- */

/* They ask for nothing, and so they cannot fail. */
static void ask(struct calls *calls)
{
	struct sml_counters counters = {.size = sizeof(counters)};
	struct sml_info info = SML_INFO_INIT;
	const char *name = NULL;

	if (CALL(sml_type_size, SML_INT32) != sizeof(int32_t))
		wrong(calls, "sml_type_size", 0);
	if (strlen(CALL(sml_version)) == 0 || CALL(sml_version_number) != SML_VERSION_NUMBER)
		wrong(calls, "sml_version", 0);
	CALL(sml_count_elsewhere, calls->context, "MPI", 1);
	if (CALL(sml_get_counters, calls->context, -1, &counters, NULL) != 0)
		wrong(calls, "sml_get_counters", 0);
	if (CALL(sml_get_info, calls->context, &info) != 0 || info.stripes < 1)
		wrong(calls, "sml_get_info", 0);
	/* One that is set would outlast the short one of runs with failures. */
	if (CALL(sml_set_timeout, calls->context, 0) != -EINVAL)
		wrong(calls, "sml_set_timeout", 0);
	if (CALL(sml_get_counters, calls->context, 0, &counters, &name) != 0 || name == NULL)
		wrong(calls, "sml_get_counters of a stripe", 0);
}

static void make_event_fd(struct calls *calls)
{
	int fd = CALL(sml_event_fd, calls->context);

	check(calls, "sml_event_fd", fd < 0 ? fd : 0);
}

int calls_make_all(struct sml_context *context, struct calls_complaint *complaint)
{
	struct calls calls = {.context = context, .complaint = complaint};
	struct sml_info info = SML_INFO_INIT;

	CALL(sml_get_info, context, &info);
	calls.rank = info.rank;
	calls.n = info.world_size;
	ask(&calls);
	for (unsigned kind = 0; kind < KINDS; kind++)
		make_call(&calls, kind, true);
	make_event_fd(&calls);
	for (unsigned kind = 0; kind < KINDS; kind++)
		make_call(&calls, kind, false);
	ask(&calls);
	return calls.error;
}

/*
 * The next job has no failure of the old one. If there is none, the context says so. NULL: the
 * switch decides on its members.
 */
static void go_on_in_another_job(struct calls *calls, const char *job)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;
	struct sml_info info = SML_INFO_INIT;
	int result;

	next.job = job;
	next.world_size = job != NULL;
	sml_error_set(0, "%s", "");
	result = CALL(sml_reconfigure, calls->context, &next);
	check(calls, "sml_reconfigure", result);
	if (result < 0 && CALL(sml_barrier, calls->context, NULL, NULL) == 0)
		wrong(calls, "sml_barrier without a job", 0);
	if (result == 0)
		make_call(calls, ALLREDUCE, true);
	if (CALL(sml_get_info, calls->context, &info) != 0 || info.waiting > 0 ||
	    (result == 0 && job == NULL && info.previous_ranks[0] != 0))
		wrong(calls, "sml_get_info of another job", 0);
}

void calls_abort_own_job(const struct sml_config *config, struct calls_complaint *complaint)
{
	struct calls calls = {.n = 1, .complaint = complaint};
	char again[64];
	int result;

	/* The text of an earlier failure must not pass for this one's. */
	sml_error_set(0, "%s", "");
	result = CALL(sml_open, &calls.context, config);
	check(&calls, "sml_open", result);
	if (result < 0)
		return;
	result = CALL(sml_abort, calls.context, "enough");
	check(&calls, "sml_abort", result);
	/* One way or the other, the job is over. */
	if (result == 0 && CALL(sml_barrier, calls.context, NULL, NULL) == 0)
		wrong(&calls, "sml_barrier after sml_abort", 0);
	snprintf(again, sizeof(again), "%s, again", config->job);
	go_on_in_another_job(&calls, again);
	go_on_in_another_job(&calls, NULL);
	result = CALL(sml_close, calls.context);
	calls.context = NULL;
	check(&calls, "sml_close", result);
}
