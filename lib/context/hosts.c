/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/switch.h"
#include "lib/context/data_path.h"
#include "lib/context/probe.h"

/* As long as a process may stand still on a busy machine; after that, ranks stay individual. */
#define MEETING_NS (10 * SML_NS_PER_SEC)
/* The leader's door may be crowded. */
#define PAUSE_NS (5 * SML_NS_PER_MS)

/* "embedded" asks for a stripe in every rank, also on one host. Faults and traces are of packets.
 */
static bool may_share(const struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;

	if (!settings->host_group || settings->world_size == 1 || settings->trace)
		return false;
	if (settings->switch_address)
		return settings->host_group_under && context->n_stripes == 1;
	return !settings->every_rank && !settings->has_faults;
}

/* With a switch: why this rank sends its own packets. */
static const char *why_alone(const struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;

	if (!settings->host_group_under)
		return "SWITCHML_HOST_GROUP=1 is not set";
	if (settings->trace)
		return "SWITCHML_TRACE is a trace of its packets";
	if (context->n_stripes > 1)
		return "the job has several switches";
	return "the switch knows no other rank that can share memory with it, or they could not";
}

static bool is_known(const struct sml_hosts *hosts)
{
	return hosts->is_open || !sml_ranks_is_empty(&hosts->ranks);
}

void sml_hosts_introduce(struct sml_context *context, struct sml_application *application)
{
	struct sml_hosts *hosts = &context->hosts;
	int error = 0;

	if (!may_share(context))
		return;
	if (!is_known(hosts)) {
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

static struct sml_host_terms terms_of(const struct sml_admission *admission, bool goes_up)
{
	struct sml_host_terms terms = {
		.job = admission->job_number,
		.lanes = admission->lanes,
		.n_ranks = admission->neighbors.n,
		.goes_up = goes_up,
	};

	if (goes_up) {
		terms.head_slots = admission->head_slots;
		terms.data_slots = admission->data_slots;
	} else {
		sml_host_choose_slots(&terms, admission->head_slots, admission->data_slots);
	}
	return terms;
}

/* Enough for each later epoch, which may have other slots, and as many lanes or fewer. */
static uint64_t room_for(const struct sml_settings *settings, struct sml_host_terms terms)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	uint64_t most = sml_host_bytes(&terms), bytes;

	for (unsigned i = 0; counts[i] != 0 && counts[i] <= terms.lanes; i++) {
		struct sml_host_terms later = terms;
		struct sml_slot_counts slots = sml_slots_most(counts[i]);

		if (settings->data_slots)
			slots = (struct sml_slot_counts){settings->head_slots,
							 settings->data_slots};
		later.lanes = counts[i];
		later.head_slots = (uint16_t)slots.head;
		later.data_slots = (uint16_t)slots.data;
		bytes = sml_host_bytes(&later);
		most = bytes > most ? bytes : most;
	}
	return most;
}

/* Within the host, ranks have the numbers 0, 1, … */
static struct sml_meeting *new_meeting(const struct sml_stripe *first, bool goes_up)
{
	const struct sml_context *context = first->context;
	const struct sml_neighbors *neighbors = &first->admission.neighbors;
	struct sml_host_terms terms = terms_of(&first->admission, goes_up);
	struct sml_meet_group group = {.ranks = 0};
	unsigned n = 0, own = 0;

	if (goes_up)
		terms.room_bytes = room_for(&context->settings, terms);
	for (unsigned rank = sml_ranks_next(&neighbors->ranks, 0); n < neighbors->n;
	     rank = sml_ranks_next(&neighbors->ranks, rank + 1)) {
		if (rank == context->settings.rank)
			own = n;
		group.ranks |= (uint64_t)1 << n;
		memcpy(group.tokens[n], neighbors->tokens[n], SML_HOST_TOKEN_BYTES);
		n++;
	}
	return sml_meeting_new(&terms, &group, own, &context->hosts.door);
}

/* Wait for the meeting, the other ranks' probes, or the control connection. */
static int wait_a_moment(const struct sml_stripe *first, const struct sml_meeting *meeting,
			 struct sml_control *control, bool serves, uint64_t until_ns)
{
	int fds[SML_MAX_SHARDS + 1];
	unsigned n = 0;
	uint64_t soon_ns = sml_now_ns() + PAUSE_NS;

	for (unsigned i = 0; serves && i < first->admission.shards; i++)
		fds[n++] = first->transports[i]->poll_fd;
	if (sml_meeting_fd(meeting) >= 0)
		fds[n++] = sml_meeting_fd(meeting);
	else if (soon_ns < until_ns)
		until_ns = soon_ns;
	return sml_control_pump(control, fds, n, until_ns);
}

static int meet(struct sml_stripe *first, struct sml_meeting *meeting, struct sml_control *control,
		struct sml_probe *probe, int *step)
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
		error = wait_a_moment(first, meeting, control, probe != NULL, until_ns);
		if (error == 0 && probe)
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

static struct sml_host *new_host(const struct sml_stripe *first, struct sml_meeting *meeting)
{
	const struct sml_neighbors *neighbors = &first->admission.neighbors;
	struct sml_host *host = calloc(1, sizeof(*host));
	uint8_t n = 0;

	if (host == NULL)
		return NULL;
	host->memory = sml_meeting_take(meeting, &host->leader_fd);
	for (unsigned rank = sml_ranks_next(&neighbors->ranks, 0); n < neighbors->n;
	     rank = sml_ranks_next(&neighbors->ranks, rank + 1)) {
		if (rank == first->context->settings.rank)
			host->rank = n;
		host->job_ranks[n++] = (uint16_t)rank;
	}
	sml_host_tell_cpus(host);
	return host;
}

static void close_door(struct sml_context *context)
{
	if (context->hosts.is_open)
		sml_host_close_door(&context->hosts.door);
	context->hosts.is_open = false;
}

/* The memory is in hosts.met afterwards, if the ranks share it as far as this one can tell. */
static int try_to_meet(struct sml_stripe *first, struct sml_control *control,
		       struct sml_probe *probe, bool goes_up)
{
	struct sml_context *context = first->context;
	struct sml_meeting *meeting = new_meeting(first, goes_up);
	int error = 0, step = -errno;

	if (meeting)
		error = meet(first, meeting, control, probe, &step);
	if (error == 0 && step == 1) {
		context->hosts.met = new_host(first, meeting);
		step = context->hosts.met ? step : -ENOMEM;
	}
	if (error == 0 && step != 1)
		tell_failure(context, step);
	sml_meeting_free(meeting);
	return error;
}

int sml_hosts_meet(struct sml_stripe *first, struct sml_probe *probe, bool *share)
{
	struct sml_context *context = first->context;
	int error = 0;

	if (context->hosts.is_open && first->admission.neighbors.n == context->settings.world_size)
		error = try_to_meet(first, first->control, probe, false);
	*share = context->hosts.met != NULL;
	close_door(context);
	return error;
}

static void free_host(struct sml_host *host)
{
	if (host == NULL)
		return;
	sml_host_unmap(&host->memory);
	if (host->leader_fd >= 0)
		close(host->leader_fd);
	free(host);
}

static void drop_met(struct sml_context *context)
{
	free_host(context->hosts.met);
	context->hosts.met = NULL;
}

static void stop_meeting(struct sml_context *context)
{
	close_door(context);
	drop_met(context);
}

/* All ranks of the host have frozen their workers: they have reported them. */
static int begin_anew(struct sml_stripe *stripe)
{
	struct sml_hosts *hosts = &stripe->context->hosts;
	struct sml_host *host = stripe->context->crew.host;
	struct sml_host_terms terms = terms_of(&stripe->admission, true);
	bool over, fits;

	if (!sml_ranks_are_equal(&stripe->admission.neighbors.ranks, &hosts->ranks))
		return sml_error_set(SML_ERROR_PROTOCOL,
				     "it does not admit the ranks of this host as one, as the job "
				     "has begun");
	if (host == NULL)
		return 0;
	terms.room_bytes = host->memory.terms.room_bytes;
	/* Once a failure has stopped the threads, the code that explains it looks at the slots. */
	pthread_mutex_lock(&stripe->context->lock);
	over = sml_crew_is_stopping(&stripe->context->crew);
	fits = over || sml_host_renew(&host->memory, &terms, host->rank == 0);
	pthread_mutex_unlock(&stripe->context->lock);
	if (over)
		return sml_error_set(SML_ERROR_CLOSED, "the context failed in the meantime");
	if (!fits)
		return sml_error_set(SML_ERROR_PROTOCOL,
				     "it gives the job more slots than the ranks of this host have "
				     "memory for");
	return 0;
}

/* Several stripes open at once, each in a thread of its own, and none of them shares memory. */
static bool may_meet_under(const struct sml_context *context)
{
	return context->n_stripes == 1;
}

int sml_hosts_meet_under(struct sml_stripe *stripe, struct sml_control *control,
			 struct sml_readiness *found)
{
	struct sml_context *context = stripe->context;
	unsigned n_ranks = stripe->admission.neighbors.n;
	int error = 0;

	if (!may_meet_under(context))
		return 0;
	if (context->shape.lanes)
		error = begin_anew(stripe);
	else if (context->hosts.is_open && n_ranks > 0)
		error = try_to_meet(stripe, control, NULL, true);
	/* Another rank of the host could not share it: now all are on their own. */
	if (n_ranks == 0)
		drop_met(context);
	found->shares_memory = context->hosts.met || context->crew.host;
	if (context->shape.lanes == 0)
		close_door(context);
	return error;
}

bool sml_hosts_sends(const struct sml_stripe *stripe, const struct sml_readiness *found)
{
	const struct sml_neighbors *neighbors = &stripe->admission.neighbors;

	return neighbors->n == 0 ||
	       (found->shares_memory &&
		sml_ranks_next(&neighbors->ranks, 0) == stripe->context->settings.rank);
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

static void keep_met(struct sml_context *context, const struct sml_ranks *ranks)
{
	context->crew.host = context->hosts.met;
	context->crew.callers_drive = !sml_host_leads(context->crew.host);
	context->hosts.met = NULL;
	context->hosts.ranks = *ranks;
	sml_host_count_cpus(context->crew.host);
}

int sml_hosts_settle_under(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;

	if (may_meet_under(context) && context->hosts.met && stripe->admission.neighbors.n > 0)
		keep_met(context, &stripe->admission.neighbors.ranks);
	else if (may_meet_under(context) && context->crew.host == NULL)
		stop_meeting(context); /* in a failover, progress threads read crew.host */
	if (context->crew.host == NULL && stripe->index == 0 && context->settings.world_size > 1)
		sml_log(&context->settings.log, SML_LOG_INFO,
			"this rank shares no memory with others of its host: %s",
			why_alone(context));
	if (stripe->admission.neighbors.n > 0 && context->crew.host == NULL)
		return sml_error_set(SML_ERROR_PROTOCOL,
				     "the switch at %s starts the job as if this rank shared "
				     "memory with others",
				     sml_stripe_name(stripe));
	return 0;
}

void sml_hosts_settle(struct sml_stripe *first, bool share)
{
	struct sml_context *context = first->context;

	if (!share) {
		sml_hosts_fini(context);
		return;
	}
	keep_met(context, &first->admission.neighbors.ranks);
	become_only_stripe(first, &context->crew.host->memory.terms);
}

void sml_hosts_fini(struct sml_context *context)
{
	stop_meeting(context);
	free_host(context->crew.host);
	context->crew.host = NULL;
}
