/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/membership.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/plural.h"
#include "lib/context/context.h"

/* A switch that has not answered by then is told of as silent. */
#define ANSWER_NS SML_NS_PER_SEC

/* ---- what is told; the lock is held ---- */

/* As of a job that begins. A rank that has not answered is missing, too. */
static bool is_speaker(const struct sml_context *context, unsigned silent,
		       const struct sml_ranks *late)
{
	struct sml_ranks missing = *late;

	if (!context->form->has_switches && silent < context->n_stripes)
		sml_ranks_add(&missing, context->senders.rank[silent]);
	return sml_notice_is_speaker(&context->settings, &missing);
}

/* Where the answers of a stripe come from. */
static const char *name_of_source(const struct sml_context *context, unsigned stripe)
{
	return sml_stripe_name(&context->stripes[sml_context_source(context, stripe)]);
}

/* The switch to which only shorter packets pass, and their text; or NULL. */
static const char *find_narrow(const struct sml_context *context, char narrow[SML_NARROW_BYTES])
{
	narrow[0] = '\0';
	for (unsigned i = 0; i < context->n_stripes; i++) {
		sml_stall_narrow_text(context->stripes[i].shards, context->stripes[i].n_shards,
				      narrow);
		if (narrow[0] != '\0')
			return sml_stripe_name(&context->stripes[i]);
	}
	return NULL;
}

static void describe_path(const struct sml_context *context, char *text, size_t bytes)
{
	char narrow[SML_NARROW_BYTES];
	const char *end = find_narrow(context, narrow);

	snprintf(text, bytes,
		 "results (all ranks have made the call: packets are lost between this rank and "
		 "%s%s)",
		 end ? end : name_of_source(context, 0), narrow);
}

/* Nobody is late. */
static void describe_loss(const struct sml_context *context, char *text, size_t bytes)
{
	const struct sml_host *host = context->threads.host;

	if (context->form->path == SML_PATH_MEMORY)
		snprintf(text, bytes,
			 "results (all ranks have made the call, and one of this host does not "
			 "run)");
	else if (host && !sml_host_leads(host))
		snprintf(text, bytes,
			 "results (all ranks have made the call: rank %u, which sends for this "
			 "host, does not run, or packets are lost between it and %s)",
			 host->job_ranks[0], name_of_source(context, 0));
	else
		describe_path(context, text, bytes);
}

/*
 * A path that has become smaller may make others late in a circle: without a switch, each rank that
 * lacks results from one stripe is late at another.
 */
static void describe_late(const struct sml_context *context,
			  const struct sml_stall_lacking *lacking, const struct sml_ranks *late,
			  char *text, size_t bytes)
{
	char ranks[SML_RANKS_TEXT_BYTES], hosts[SML_STALL_HOSTS_BYTES], narrow[SML_NARROW_BYTES];
	const char *end = find_narrow(context, narrow);

	sml_ranks_text(late, 0, ranks, sizeof(ranks));
	sml_stall_name_hosts(lacking, late, hosts);
	snprintf(text, bytes, "rank%s %s of %u%s%s%s%s", sml_plural(sml_ranks_count(late)), ranks,
		 context->settings.world_size, hosts,
		 end ? "; packets are lost between this rank and " : "", end ? end : "", narrow);
}

static void describe_silence(const struct sml_context *context, unsigned silent, char *text,
			     size_t bytes)
{
	if (!context->form->has_switches)
		snprintf(text, bytes, "other ranks (rank %u does not say which)",
			 context->senders.rank[silent]);
	else
		snprintf(text, bytes, "other ranks (the switch at %s does not say which)",
			 name_of_source(context, silent));
}

/* The ranks that are late, or why it is not known which. */
static void log_late_ranks(struct sml_context *context, const struct sml_stall_reports *reports,
			   uint64_t now_ns)
{
	struct sml_late *late = &context->late;
	char who[SML_TEXT_BYTES], call[160];
	struct sml_stall_lacking lacking;
	struct sml_ranks ranks;

	sml_stall_gather(reports, context->settings.world_size, &lacking);
	sml_stall_find_late(&lacking, context->settings.rank, &ranks);
	if (!is_speaker(context, reports->silent, &ranks) || now_ns >= late->call.deadline_ns)
		return;
	if (!sml_ranks_is_empty(&ranks))
		describe_late(context, &lacking, &ranks, who, sizeof(who));
	else if (reports->silent < context->n_stripes)
		describe_silence(context, reports->silent, who, sizeof(who));
	else
		describe_loss(context, who, sizeof(who));
	pthread_mutex_lock(&context->submit_lock);
	sml_history_text(&context->history, SML_HEAD, late->call.head_chunk, call, sizeof(call));
	pthread_mutex_unlock(&context->submit_lock);
	sml_notice_log(&late->notice, now_ns, late->call.deadline_ns, "%s in job \"%s\", %s", who,
		       context->settings.config.job, call);
}

/* ---- when ---- */

/* The first call that waits. False: none does. A lost switch has its own notices. */
static bool find_call(struct sml_context *context, struct sml_call_in_progress *call)
{
	*call = (struct sml_call_in_progress){.number = 0};
	return sml_context_check(context) == 0 && sml_context_find_parked(context) == NULL &&
	       sml_requests_oldest(&context->requests, call);
}

/*
 * Has nothing come of the call since it was seen first? Otherwise, another wait may begin, and
 * answers about the last one are of no use.
 */
static bool is_same_wait(struct sml_context *context)
{
	struct sml_late *late = &context->late;
	struct sml_call_in_progress call;
	bool waits = find_call(context, &call);
	bool same_call = waits && late->waits && call.number == late->call.number;

	if (same_call && call.left == late->call.left)
		return true;
	late->asked_ns = 0;
	if (waits)
		sml_notice_again(&late->notice, same_call ? sml_now_ns() : call.begun_ns);
	late->waits = waits;
	late->call = call;
	return false;
}

/* All have answered, or one of them is silent. */
static void look_at_answers(struct sml_context *context, uint64_t now_ns)
{
	struct sml_stall_reports reports;

	sml_context_collect(context, 0, false, &reports);
	if (reports.n_told == context->n_stripes || now_ns - context->late.asked_ns >= ANSWER_NS) {
		log_late_ranks(context, &reports, now_ns);
		context->late.asked_ns = 0;
	}
	sml_stall_reports_close(&reports);
}

void sml_wait_notices_check(struct sml_context *context)
{
	struct sml_late *late = &context->late;
	uint64_t now_ns;

	if (!sml_context_is_running(context) || context->settings.config.wait_notice_ms == 0)
		return;
	/* Another control's thread looks, or is in the application's log: that may take long. */
	if (pthread_mutex_trylock(&late->lock) != 0)
		return;
	now_ns = sml_now_ns();
	if (late->notice.settings == NULL)
		sml_notice_begin(&late->notice, &context->settings, now_ns);
	if (is_same_wait(context)) {
		if (late->asked_ns) {
			look_at_answers(context, now_ns);
		} else if (sml_notice_is_due(&late->notice, now_ns)) {
			late->asked_ns = now_ns;
			sml_context_ask(context);
		}
	}
	pthread_mutex_unlock(&late->lock);
}
