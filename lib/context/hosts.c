/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/context/data_path.h"
#include "lib/context/probe.h"

/* As long as a process may stand still on a busy machine; after that, ranks stay individual. */
#define MEETING_NS (10 * SML_NS_PER_SEC)
/* The leader's door may be crowded. */
#define PAUSE_NS (5 * SML_NS_PER_MS)

static bool may_share(const struct sml_settings *settings)
{
	/* "embedded" asks for a stripe in every rank, also on one host; a trace is of packets. */
	return settings->host_group && settings->world_size > 1 &&
	       settings->switch_address == NULL && !settings->every_rank && !settings->trace;
}

void sml_hosts_introduce(struct sml_context *context, struct sml_application *application)
{
	struct sml_hosts *hosts = &context->hosts;
	int error = 0;

	if (!may_share(&context->settings))
		return;
	if (!hosts->is_open) {
		sml_host_machine(hosts->machine);
		error = sml_host_open_door(&hosts->door);
		hosts->is_open = error == 0;
	}
	if (error)
		sml_log(&context->settings.log, SML_LOG_INFO,
			"this rank shares no memory with others: no UNIX socket: %s",
			strerrordesc_np(-error));
	if (error || hosts->machine[0] == '\0')
		return;
	application->machine = hosts->machine;
	application->host_token = hosts->door.token;
}

/* ---- the meeting ---- */

_Static_assert(SML_TALK_TOKEN_BYTES == SML_HOST_TOKEN_BYTES, "tokens are told as they are");

static struct sml_meeting *new_meeting(const struct sml_stripe *first)
{
	const struct sml_context *context = first->context;
	const struct sml_admission *admission = &first->admission;
	struct sml_host_terms terms = {
		.job = admission->job_number,
		.lanes = admission->lanes,
		.n_ranks = context->settings.world_size,
	};
	struct sml_meet_group group = {.ranks = admission->neighbors.ranks};

	sml_host_choose_slots(&terms, admission->head_slots, admission->data_slots);
	memcpy(group.tokens, admission->neighbors.tokens, sizeof(group.tokens));
	return sml_meeting_new(&terms, &group, context->settings.rank, &context->hosts.door);
}

/* Wait for the meeting, the other ranks' probes, or the control connection. */
static int wait_a_moment(const struct sml_stripe *first, const struct sml_meeting *meeting,
			 uint64_t until_ns)
{
	int fds[SML_MAX_SHARDS + 1];
	unsigned n = 0;
	uint64_t soon_ns = sml_now_ns() + PAUSE_NS;

	for (unsigned i = 0; i < first->admission.shards; i++)
		fds[n++] = first->transports[i]->poll_fd;
	if (sml_meeting_fd(meeting) >= 0)
		fds[n++] = sml_meeting_fd(meeting);
	else if (soon_ns < until_ns)
		until_ns = soon_ns;
	return sml_control_pump(first->control, fds, n, until_ns);
}

static int meet(struct sml_stripe *first, struct sml_meeting *meeting, struct sml_probe *probe,
		int *step)
{
	uint64_t until_ns = sml_now_ns() + MEETING_NS;
	int error = 0;

	if (first->deadline_ns < until_ns)
		until_ns = first->deadline_ns;
	while (error == 0 && (*step = sml_meeting_step(meeting)) == 0) {
		if (sml_now_ns() >= until_ns) {
			*step = -ETIMEDOUT;
			return 0;
		}
		error = wait_a_moment(first, meeting, until_ns);
		if (error == 0)
			sml_probe_serve(probe);
	}
	return error;
}

static void tell_failure(const struct sml_context *context, int step)
{
	sml_log(&context->settings.log, SML_LOG_INFO,
		"the ranks of this host could not share memory (%s): each sends its own packets",
		strerrordesc_np(-step));
}

static struct sml_host *new_host(const struct sml_context *context, struct sml_meeting *meeting)
{
	struct sml_host *host = calloc(1, sizeof(*host));

	if (host == NULL)
		return NULL;
	host->memory = sml_meeting_take(meeting);
	host->rank = context->settings.rank;
	sml_host_tell_cpus(host);
	return host;
}

static void close_door(struct sml_context *context)
{
	if (context->hosts.is_open)
		sml_host_close_door(&context->hosts.door);
	context->hosts.is_open = false;
}

static uint64_t all_ranks(const struct sml_context *context)
{
	return ~(uint64_t)0 >> (SML_MAX_RANKS - context->settings.world_size);
}

int sml_hosts_meet(struct sml_stripe *first, struct sml_probe *probe, bool *share)
{
	struct sml_context *context = first->context;
	struct sml_meeting *meeting = NULL;
	int error = 0, step;

	*share = false;
	if (context->hosts.is_open && first->admission.neighbors.ranks == all_ranks(context)) {
		meeting = new_meeting(first);
		step = -errno;
		if (meeting)
			error = meet(first, meeting, probe, &step);
		if (error == 0 && step == 1) {
			context->hosts.met = new_host(context, meeting);
			step = context->hosts.met ? step : -ENOMEM;
		}
		if (error == 0 && step != 1)
			tell_failure(context, step);
		sml_meeting_free(meeting);
		*share = context->hosts.met != NULL;
	}
	close_door(context);
	return error;
}

/* The shared slots are the job's only stripe, and there is one thread for them in each rank. */
static void become_only_stripe(struct sml_stripe *first, const struct sml_host_terms *terms)
{
	struct sml_context *context = first->context;

	context->n_stripes = 1;
	first->admission.head_slots = terms->head_slots;
	first->admission.data_slots = terms->data_slots;
	first->admission.shards = 1;
	snprintf(first->own_name, sizeof(first->own_name), "this host's shared memory");
	__atomic_store_n(&first->name, first->own_name, __ATOMIC_RELEASE);
	sml_data_path_close(first->transports);
	memset(first->transports, 0, sizeof(first->transports));
}

void sml_hosts_settle(struct sml_stripe *first, bool share)
{
	struct sml_context *context = first->context;

	if (!share) {
		sml_hosts_fini(context);
		return;
	}
	context->crew.host = context->hosts.met;
	context->hosts.met = NULL;
	sml_host_count_cpus(context->crew.host);
	become_only_stripe(first, &context->crew.host->memory.terms);
}

static void free_host(struct sml_host *host)
{
	if (host)
		sml_host_unmap(&host->memory);
	free(host);
}

void sml_hosts_fini(struct sml_context *context)
{
	close_door(context);
	free_host(context->hosts.met);
	free_host(context->crew.host);
	context->hosts.met = context->crew.host = NULL;
}
