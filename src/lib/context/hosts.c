/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/membership.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/least.h"
#include "job/switch.h"

/* ---- the handshake of the ranks on this host ---- */

/* As long as a process may stand still on a busy machine; after that, ranks stay individual. */
#define MEETING_NS (10 * SML_NS_PER_SEC)
/* The leader's listener may be crowded. */
#define PAUSE_NS (5 * SML_NS_PER_MS)

_Static_assert(SML_SESSION_TOKEN_BYTES == SML_HOST_TOKEN_BYTES, "tokens are told as they are");

static struct sml_host_terms terms_of(const struct sml_stripe *stripe, bool goes_up)
{
	const struct sml_admission *admission = &stripe->admission;
	unsigned n = admission->host_ranks.n;
	struct sml_host_terms terms = {
		.job = admission->job_number,
		.lanes = admission->lanes,
		.divisor = sml_divisor_of(n, n, stripe->context->settings.world_size),
		.n_ranks = (uint8_t)n,
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
static struct sml_host_handshake *new_handshake(const struct sml_stripe *stripe,
						const struct sml_senders *senders)
{
	const struct sml_context *context = stripe->context;
	const struct sml_host_ranks *host_ranks = &stripe->admission.host_ranks;
	struct sml_host_terms terms = terms_of(stripe, senders->n != 1);
	struct sml_meet_group group = {.ranks = 0};
	unsigned n = 0, own = 0;

	terms.room_bytes = senders->n ? sml_host_room_for_parts(&terms, senders->n)
				      : room_for(&context->settings, terms);
	for (unsigned rank = sml_ranks_next(&host_ranks->ranks, 0); n < host_ranks->n;
	     rank = sml_ranks_next(&host_ranks->ranks, rank + 1)) {
		if (rank == context->settings.rank)
			own = n;
		group.ranks |= (uint64_t)1 << n;
		memcpy(group.tokens[n], host_ranks->tokens[n], SML_HOST_TOKEN_BYTES);
		n++;
	}
	return sml_host_handshake_new(&terms, &group, own, &stripe->listener);
}

/* Wait for the handshake, the other ranks' probes, or the control connection. */
static int wait_a_moment(const struct sml_stripe *stripe,
			 const struct sml_host_handshake *handshake, struct sml_control *control,
			 bool serves, uint64_t until_ns)
{
	int fds[SML_MAX_SHARDS + 1];
	unsigned n = 0;
	uint64_t soon_ns = sml_now_ns() + PAUSE_NS;

	for (unsigned i = 0; serves && i < stripe->admission.shards; i++)
		fds[n++] = stripe->transports[i]->poll_fd;
	if (sml_host_handshake_fd(handshake) >= 0)
		fds[n++] = sml_host_handshake_fd(handshake);
	else if (soon_ns < until_ns)
		until_ns = soon_ns;
	return sml_control_pump(control, fds, n, until_ns);
}

/* From the admission on. */
static uint64_t handshake_end_ns(const struct sml_stripe *stripe)
{
	return sml_earlier(stripe->deadline_ns, sml_now_ns() + MEETING_NS);
}

static int meet(struct sml_stripe *stripe, struct sml_host_handshake *handshake,
		struct sml_control *control, struct sml_probe *probe, uint64_t until_ns, int *step)
{
	int error = 0;

	while (error == 0 && (*step = sml_host_handshake_step(handshake)) == 0) {
		if (sml_now_ns() >= until_ns) {
			*step = -ETIMEDOUT;
			return 0;
		}
		error = wait_a_moment(stripe, handshake, control, probe != NULL, until_ns);
		if (error == 0 && probe)
			sml_probe_serve(probe);
	}
	return error;
}

static void report_failure(const struct sml_context *context, int step)
{
	sml_log(&context->settings.log, SML_LOG_INFO,
		"the ranks of this host could not share memory (%s): each sends its own packets",
		strerrordesc_np(-step));
}

static struct sml_host *new_host(const struct sml_stripe *stripe,
				 struct sml_host_handshake *handshake)
{
	const struct sml_host_ranks *host_ranks = &stripe->admission.host_ranks;
	struct sml_host *host = calloc(1, sizeof(*host));
	uint8_t n = 0;

	if (host == NULL)
		return NULL;
	host->memory = sml_host_handshake_take(handshake, &host->leader_fd);
	for (unsigned rank = sml_ranks_next(&host_ranks->ranks, 0); n < host_ranks->n;
	     rank = sml_ranks_next(&host_ranks->ranks, rank + 1)) {
		if (rank == stripe->context->settings.rank)
			host->rank = n;
		host->job_ranks[n++] = (uint16_t)rank;
	}
	sml_host_publish_cpus(host);
	return host;
}

/* The memory is in stripe->met afterwards, if the ranks share it as far as this one can tell. */
static int try_to_meet(struct sml_stripe *stripe, struct sml_control *control,
		       struct sml_probe *probe, const struct sml_senders *senders,
		       uint64_t until_ns)
{
	struct sml_host_handshake *handshake = new_handshake(stripe, senders);
	int error = 0, step = -errno;

	if (handshake)
		error = meet(stripe, handshake, control, probe, until_ns, &step);
	if (error == 0 && step == 1) {
		stripe->met = new_host(stripe, handshake);
		step = stripe->met ? step : -ENOMEM;
	}
	if (error == 0 && step != 1)
		report_failure(stripe->context, step);
	sml_host_handshake_free(handshake);
	return error;
}

/*
 * As hosts would contribute. n: 0 if no two ranks can share memory, or rank 0 has not told this
 * rank of all that it could share memory with.
 */
static struct sml_senders list_hosts(const struct sml_context *context)
{
	const struct sml_admission *admission = &context->stripes[0].admission;
	const struct sml_peer_rank *ranks = admission->peer_ranks->ranks;
	unsigned n_ranks = context->settings.world_size, n_own = 0;
	uint16_t own = ranks[context->settings.rank].first_of_host;
	bool same = admission->stripes == n_ranks;
	struct sml_senders hosts = {.n = 0};

	for (unsigned rank = 0; rank < n_ranks; rank++) {
		uint16_t first = ranks[rank].first_of_host;

		if (rank == own)
			hosts.own = hosts.n;
		if (rank == first)
			hosts.rank[hosts.n++] = (uint8_t)rank;
		n_own += first == own;
		same &= first != own || rank == context->settings.rank ||
			sml_ranks_has(&admission->host_ranks.ranks, rank);
	}
	same &= n_own == (admission->host_ranks.n ? admission->host_ranks.n : 1);
	return same && hosts.n > 1 && hosts.n < n_ranks ? hosts : (struct sml_senders){.n = 0};
}

struct sml_senders sml_hosts_list(const struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;

	/* All ranks of the job are on this host, and their packets are of no interest. */
	if (context->stripes[0].admission.host_ranks.n == settings->world_size &&
	    !settings->config.faults)
		return (struct sml_senders){.n = 1};
	return list_hosts(context);
}

/* Give up the memory of a handshake, if there is any. */
static void drop_met(struct sml_stripe *stripe)
{
	struct sml_host *host = stripe->met;

	stripe->met = NULL;
	if (host == NULL)
		return;
	sml_host_unmap(&host->memory);
	if (host->leader_fd >= 0)
		close(host->leader_fd);
	free(host);
}

/*
 * All ranks of the host have frozen their workers: they have reported them. host: what this rank
 * shares with these ranks; or NULL, and none.
 */
static int begin_anew(struct sml_stripe *stripe, struct sml_host *host,
		      const struct sml_ranks *ranks)
{
	struct sml_host_terms terms = terms_of(stripe, true);
	bool over, fits;

	if (!sml_ranks_are_equal(&stripe->admission.host_ranks.ranks, ranks))
		return sml_error_set(SML_ERROR_PROTOCOL,
				     "it does not admit the ranks of this host as one, as the job "
				     "has begun: give all ranks of a host the same "
				     "SWITCHML_SWITCH, or set SWITCHML_SHARED_MEMORY=0 on them");
	if (host == NULL)
		return 0;
	terms.room_bytes = host->memory.terms.room_bytes;
	/* Once a failure has stopped the threads, the code that explains it looks at the slots. */
	pthread_mutex_lock(&stripe->context->lock);
	over = sml_threads_is_stopping(&stripe->context->threads);
	fits = over || sml_host_renew(&host->memory, &terms, host->rank == 0);
	pthread_mutex_unlock(&stripe->context->lock);
	if (over)
		return sml_error_set(SML_ERROR_CLOSED, "the context failed in the meantime");
	if (!fits)
		return sml_error_set(SML_ERROR_PROTOCOL,
				     "it gives the job more slots than the ranks of this host have "
				     "memory for: install the same release on all switches and "
				     "ranks");
	return 0;
}

/*
 * ---- the stripes of this rank ----
 *
 * Each opens in a thread of its own, and its ranks meet there. All switches must decide the same,
 * so a rank says the same to all of them: that it shares memory with the same ranks at each one (or
 * is alone at each one), or that it does not. Each switch has these words of all ranks.
 */

static void note_stripe(const struct sml_stripe *stripe, bool apart)
{
	struct sml_context *context = stripe->context;
	struct sml_hosts *hosts = &context->hosts;
	const struct sml_host_ranks *host_ranks = &stripe->admission.host_ranks;
	uint64_t one = 1;
	bool differs, decided;

	pthread_mutex_lock(&context->lock);
	if (hosts->found.n_stripes++ == 0)
		hosts->found.ranks = host_ranks->ranks;
	differs = !sml_ranks_are_equal(&hosts->found.ranks, &host_ranks->ranks);
	hosts->found.apart |= apart || differs || (host_ranks->n > 0 && stripe->met == NULL);
	decided = hosts->found.apart || hosts->found.n_stripes == hosts->found.n_meetings;
	pthread_mutex_unlock(&context->lock);
	if (differs)
		sml_log(&context->settings.log, SML_LOG_INFO,
			"the switch at %s knows other ranks of this host than another switch of "
			"the job: each sends its own packets",
			sml_stripe_name(stripe));
	/* Never read, so it wakes all that wait. */
	if (decided && hosts->found.fd >= 0 &&
	    write(hosts->found.fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
		sml_assert(errno == EAGAIN);
}

static bool is_decided(struct sml_context *context, bool *together)
{
	const struct sml_hosts *hosts = &context->hosts;
	bool decided;

	pthread_mutex_lock(&context->lock);
	*together = !hosts->found.apart;
	decided = hosts->found.apart || hosts->found.n_stripes == hosts->found.n_meetings;
	pthread_mutex_unlock(&context->lock);
	return decided;
}

/* The other switches have not admitted the job, and this one waits for Ready only for a while. */
static void give_up_handshake(struct sml_context *context, bool *together)
{
	struct sml_hosts *hosts = &context->hosts;
	unsigned n_missing;

	pthread_mutex_lock(&context->lock);
	n_missing = context->n_stripes - hosts->found.n_stripes;
	hosts->found.apart |= n_missing > 0;
	*together = !hosts->found.apart;
	pthread_mutex_unlock(&context->lock);
	if (n_missing > 0)
		sml_log(&context->settings.log, SML_LOG_INFO,
			"%u of the job's %u switches did not admit it within %u s of another one: "
			"this rank shares no memory with others of its host",
			n_missing, context->n_stripes, (unsigned)(MEETING_NS / SML_NS_PER_SEC));
}

/* What all switches are told. 0, or the control's error. */
static int decide(struct sml_stripe *stripe, struct sml_control *control, uint64_t until_ns,
		  bool *together)
{
	struct sml_context *context = stripe->context;
	int error = 0;

	while (error == 0 && !is_decided(context, together)) {
		if (sml_now_ns() >= until_ns) {
			give_up_handshake(context, together);
			return 0;
		}
		error = sml_control_pump(control, &context->hosts.found.fd, 1, until_ns);
	}
	return error;
}

static int meet_once(struct sml_stripe *stripe, struct sml_control *control,
		     struct sml_probe *probe, bool *together)
{
	const bool has_switches = stripe->context->form->has_switches;
	const struct sml_senders none = {.n = 0};
	const struct sml_senders senders = has_switches ? none : sml_hosts_list(stripe->context);
	bool apart = senders.n == 0 && !has_switches;
	uint64_t until_ns = handshake_end_ns(stripe);
	int error = 0;

	stripe->has_met = true;
	if (!apart && stripe->listener.fd >= 0 && stripe->admission.host_ranks.n > 0)
		error = try_to_meet(stripe, control, probe, &senders, until_ns);
	sml_host_close_listener(&stripe->listener);
	if (error)
		return error;
	note_stripe(stripe, apart);
	return decide(stripe, control, until_ns, together);
}

/* Other ranks have begun with what it has said; or the other switches have been told the same. */
static bool is_held_to_its_word(const struct sml_stripe *stripe)
{
	return stripe->may_have_begun &&
	       (sml_admission_resumes(&stripe->admission) ||
		(stripe->context->n_stripes > 1 && stripe->n_retired > 0));
}

int sml_hosts_meet(struct sml_stripe *stripe, struct sml_control *control, struct sml_probe *probe,
		   struct sml_readiness *found)
{
	struct sml_context *context = stripe->context;

	if (context->shape.lanes) {
		struct sml_host *hosts = context->threads.host;

		found->shares_memory = hosts != NULL;
		return begin_anew(stripe, hosts ? &hosts[stripe->index] : NULL,
				  &context->hosts.ranks);
	}
	stripe->may_have_begun = is_held_to_its_word(stripe);
	if (context->hosts.machine[0] == '\0' && context->form->has_switches)
		return 0;
	if (stripe->may_have_begun) {
		const struct sml_ranks none = {{0}};

		found->shares_memory = stripe->reported_shared;
		return stripe->reported_shared
			       ? begin_anew(stripe, stripe->met,
					    stripe->met ? &context->hosts.found.ranks : &none)
			       : 0;
	}
	drop_met(stripe);
	/* Admitted again: now all are on their own. */
	return stripe->has_met ? 0 : meet_once(stripe, control, probe, &found->shares_memory);
}

/* ---- what the job makes of them ---- */

/* "embedded" asks for a stripe in every rank, also on one host. A trace is of packets. */
static bool may_share(const struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;

	if (!settings->config.shared_memory || (settings->world_size == 1 && !settings->asks) ||
	    settings->files[SML_RECORD_TRACE])
		return false;
	return !settings->every_rank;
}

/* With a switch: why this rank sends its own packets. */
static const char *why_alone(const struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;

	if (!settings->config.shared_memory)
		return "SWITCHML_SHARED_MEMORY=0";
	if (settings->files[SML_RECORD_TRACE])
		return "SWITCHML_RECORD has a trace of its packets";
	return "no other rank offered to (one with the same user and namespaces, at the same "
	       "switches, and without SWITCHML_SHARED_MEMORY=0), or an earlier line says what "
	       "failed";
}

/* For all stripes or for none. 0 or -errno. */
static int open_listeners(struct sml_context *context)
{
	int error = 0;

	if (context->n_stripes > 1) {
		context->hosts.found.fd = sml_fd_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		error = context->hosts.found.fd < 0 ? -errno : 0;
	}
	for (unsigned i = 0; error == 0 && i < context->n_stripes; i++)
		error = sml_host_listen(&context->stripes[i].listener);
	return error;
}

void sml_hosts_begin(struct sml_context *context)
{
	struct sml_hosts *hosts = &context->hosts;
	int error;

	hosts->found.n_meetings = context->n_stripes;
	if (!may_share(context))
		return;
	error = open_listeners(context);
	if (error == 0) {
		sml_host_machine(hosts->machine);
		return;
	}
	sml_log(&context->settings.log, SML_LOG_INFO,
		"this rank shares no memory with others: no UNIX socket: %s",
		strerrordesc_np(-error));
}

void sml_hosts_advertise(struct sml_stripe *stripe, struct sml_application *application)
{
	struct sml_hosts *hosts = &stripe->context->hosts;

	if (hosts->machine[0] == '\0')
		return;
	application->machine = hosts->machine;
	application->host_token = stripe->listener.token;
}

static void stop_handshake(struct sml_context *context)
{
	for (unsigned i = 0; i < context->n_stripes; i++) {
		sml_host_close_listener(&context->stripes[i].listener);
		drop_met(&context->stripes[i]);
	}
	if (context->hosts.found.fd >= 0)
		close(context->hosts.found.fd);
	context->hosts.found.fd = -1;
}

bool sml_hosts_meet_again(struct sml_stripe *stripe)
{
	struct sml_hosts *hosts = &stripe->context->hosts;

	if (!stripe->has_met)
		return true;
	/* The other switches have been told. */
	if (stripe->context->n_stripes > 1)
		return stripe->may_have_begun;
	/* Those that have begun go on with this memory. */
	if (!stripe->may_have_begun)
		drop_met(stripe);
	stripe->has_met = false;
	hosts->found.n_stripes = 0;
	hosts->found.apart = false;
	return hosts->machine[0] == '\0' || sml_host_listen(&stripe->listener) == 0;
}

bool sml_hosts_sends(const struct sml_stripe *stripe, const struct sml_readiness *found)
{
	const struct sml_host_ranks *host_ranks = &stripe->admission.host_ranks;

	return host_ranks->n == 0 ||
	       (found->shares_memory &&
		sml_ranks_next(&host_ranks->ranks, 0) == stripe->context->settings.rank);
}

static bool have_all_met(const struct sml_context *context)
{
	for (unsigned i = 0; i < context->n_stripes; i++)
		if (context->stripes[i].met == NULL ||
		    context->stripes[i].admission.host_ranks.n == 0)
			return false;
	return true;
}

/*
 * One for each stripe: what its ranks share; or, where hosts have the stripes, its part of what the
 * ranks of this one share. This rank sleeps at the first one's. Returns 0 or a negative error, and
 * sets the error text.
 */
static int keep_met(struct sml_context *context)
{
	struct sml_host *hosts = calloc(context->n_stripes, sizeof(*hosts));

	if (hosts == NULL)
		return sml_error_set(-ENOMEM, "no memory for what the ranks of this host share");
	for (unsigned i = 0; i < context->n_stripes; i++) {
		const struct sml_host *met = context->stripes[sml_context_source(context, i)].met;

		hosts[i] = *met;
		if (!context->form->has_switches)
			hosts[i].memory = sml_host_part(&met->memory, i);
		hosts[i].sleepers = hosts[0].memory.head;
		hosts[i].leader_fd = hosts[0].leader_fd;
		if (met->leader_fd >= 0 && met->leader_fd != hosts[0].leader_fd)
			close(met->leader_fd);
	}
	for (unsigned i = 0; i < context->n_stripes; i++) {
		free(context->stripes[i].met);
		context->stripes[i].met = NULL;
	}
	context->threads.host = hosts;
	context->threads.callers_drive = !sml_host_leads(hosts);
	context->hosts.ranks = context->stripes[0].admission.host_ranks.ranks;
	sml_host_count_cpus(hosts);
	return 0;
}

int sml_hosts_settle(struct sml_context *context, bool share)
{
	int error = share && context->stripes[0].met ? keep_met(context) : 0;

	stop_handshake(context);
	return error;
}

int sml_hosts_ready(struct sml_context *context)
{
	const char *why = NULL;
	int error = sml_hosts_settle(context, have_all_met(context));

	if (error || context->threads.host)
		return error;
	for (unsigned i = 0; i < context->n_stripes; i++)
		if (context->stripes[i].admission.host_ranks.n > 0)
			why = sml_stripe_name(&context->stripes[i]);
	if (why)
		return sml_error_set(SML_ERROR_PROTOCOL,
				     "the switch at %s starts the job as if this rank shared "
				     "memory with others: install the same release on it and on "
				     "all ranks, or set SWITCHML_SHARED_MEMORY=0 on all ranks",
				     why);
	if (context->settings.world_size > 1)
		sml_log(&context->settings.log, SML_LOG_INFO,
			"this rank shares no memory with others of its host: %s",
			why_alone(context));
	return 0;
}

void sml_hosts_fini(struct sml_context *context)
{
	struct sml_host *hosts = context->threads.host;

	stop_handshake(context);
	context->threads.host = NULL;
	if (hosts == NULL)
		return;
	for (unsigned i = 0; i < context->n_stripes; i++)
		sml_host_unmap(&hosts[i].memory);
	if (hosts->leader_fd >= 0)
		close(hosts->leader_fd);
	free(hosts);
}
