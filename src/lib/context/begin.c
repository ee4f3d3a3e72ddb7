/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * While a stripe begins, nothing can be lost with its switch: no call has been made. So if the
 * switch dies, the stripe begins anew at the next address, and all of them are tried for a while,
 * because a switch may be started again. The ranks that waited there lose it together, and go on in
 * the same order, so they meet again. At rank 0's address, rank 0 of the last job may answer, just
 * before it closes.
 *
 * Once this rank has said Ready, the switch may have started the job for some of the others before
 * it died. Those resume it (failover.c). So this rank says in its next Join which job it was ready
 * for: it has nothing of it, and goes on with them, or begins anew if no rank was told to start.
 * They keep to the rules of the switch that told them, and so does this rank (data_path.c).
 *
 * The invariant: a new try has nothing of the last one but that, and its rules; except that the
 * others know which ranks of this host share memory at several switches: a switch that is lost
 * after that, and before Ready, is an error.
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/context/membership.h"
#include "lib/settings/notice.h"

/* What has been lost, and until when another switch is looked for. */
struct search {
	const struct sml_search_policy *policy;
	char lost[SML_TEXT_BYTES];
	unsigned n_lost;
	uint64_t until_ns;
	bool died; /* one of them had answered before */
	struct sml_notice notice;
	struct sml_resumption resumption; /* membership 0: it has not been ready */
	/* Where the switch decides: until when it waits for the others with it. */
	uint64_t insists_ns;
};

static bool was_ready(const struct search *search)
{
	return search->resumption.membership != 0;
}

/* Its membership may never begin: a member may have died, and no switch have seen it. */
static uint64_t join_deadline(const struct sml_stripe *stripe, const struct search *search)
{
	bool ends = stripe->context->settings.asks && was_ready(search);

	return ends && search->insists_ns < stripe->deadline_ns ? search->insists_ns
								: stripe->deadline_ns;
}

static int try_to_begin(struct sml_stripe *stripe, const struct search *search, bool *connected)
{
	int error = sml_stripe_connect_control(stripe);

	*connected = error == 0;
	if (error == 0)
		error = sml_stripe_tell_last_switch(stripe);
	return error ? error
		     : stripe->context->form->join(stripe,
						   was_ready(search) ? &search->resumption : NULL,
						   join_deadline(stripe, search));
}

static void look_until(const struct sml_stripe *stripe, struct search *search)
{
	unsigned again_ms = search->policy->again_ms;

	search->until_ns = again_ms ? sml_now_ns() + again_ms * SML_NS_PER_MS : stripe->deadline_ns;
}

/* ---- what it was ready for ---- */

/* Of the last admission, if the try got that far. */
static void note_ready(const struct sml_stripe *stripe, struct search *search)
{
	const struct sml_admission *admission = &stripe->admission;
	const struct sml_settings *settings = &stripe->context->settings;

	if (admission->membership == 0)
		return;
	if (!was_ready(search))
		search->insists_ns = sml_now_ns() + settings->request_wait_ms * SML_NS_PER_MS;
	search->resumption = (struct sml_resumption){
		.epoch = admission->epoch,
		.tag = admission->report_tag,
		.membership = stripe->may_have_begun ? admission->membership : 0,
		.begins = true,
	};
}

/*
 * The switch that decided has died, and not all of those that it chose have come to another one
 * in time. What it decided on cannot begin any more without this rank, so those that wait for it
 * are told. A new process is new again, and another one lets its program decide. True: it asks
 * again.
 */
static bool drops_membership(struct sml_stripe *stripe, struct search *search, int *error)
{
	struct sml_settings *settings = &stripe->context->settings;

	if (!settings->asks || !was_ready(search) || sml_now_ns() < search->insists_ns ||
	    (*error != SML_ERROR_TIMEOUT && *error != SML_ERROR_UNREACHABLE))
		return false;
	sml_control_abort(stripe->control, SML_ERROR_ABORTED,
			  "not all members came to another switch in time", 0);
	if (settings->past.ran.tag == 0 && stripe->context->n_stripes == 1) {
		search->resumption = (struct sml_resumption){.membership = 0};
		stripe->admission = (struct sml_admission){.membership = 0};
		stripe->may_have_begun = false;
		settings->past.admitted = (struct sml_past_rank){.tag = 0};
		/* It waits as at first, and so it may look for a switch as long. */
		look_until(stripe, search);
		return true;
	}
	*error = sml_error_set(SML_ERROR_TIMEOUT,
			       "the switch that decided on the members has died before this rank "
			       "saw their job begin, and not all of them have come to another: "
			       "your program must decide on the members (job, rank and world_size "
			       "of struct sml_membership)");
	return false;
}

/* ---- the next try ---- */

/* Is it the switch that has failed, and not this rank or another one? */
static bool is_lost(const struct sml_stripe *stripe, int error, bool connected)
{
	/*
	 * It said nothing, so it may be frozen, or have died just then, or be rank 0 of the last
	 * job, or something else; or it is a leaf that looks for its parent. If it has admitted
	 * this rank, it is the path of data that leads nowhere: the others must hear of that,
	 * unless they go on, at any switch.
	 */
	bool silent = error == SML_ERROR_UNREACHABLE && connected &&
		      (!sml_control_is_admitted(stripe->control) ||
		       sml_admission_resumes(&stripe->admission));

	return (error == SML_ERROR_SWITCH_DIED || silent) && !stripe->context->embedded;
}

static void note_loss(struct sml_stripe *stripe, struct search *search, int error)
{
	const struct sml_settings *settings = &stripe->context->settings;
	/* Where rank 0 may come later, rank 0 of the last job may be found first. */
	const bool is_news = !search->policy->retries;

	if (search->n_lost++ == 0) {
		look_until(stripe, search);
		sml_notice_begin(&search->notice, settings, sml_now_ns());
	}
	stripe->n_lost = search->n_lost;
	search->died |= error == SML_ERROR_SWITCH_DIED && is_news;
	/* The port of a switch that has just died may end a connection, too: that says less. */
	if (!search->died || error == SML_ERROR_SWITCH_DIED)
		snprintf(search->lost, sizeof(search->lost), "%s", sml_error_last());
	/* What listens there, and is no switch, closes each connection. */
	if (search->n_lost > 1 && error != SML_ERROR_SWITCH_DIED)
		return;
	sml_log(&settings->log, is_news ? SML_LOG_WARN : SML_LOG_TRACE,
		"%s; job \"%s\" has not begun: looking for %s", search->lost, settings->config.job,
		stripe->context->form->listener->sought);
}

/* No busy loop; but after the first loss, the others are on their way to the next switch. */
static void take_a_break(const struct search *search, bool connected)
{
	if (search->n_lost > 1 || (search->n_lost == 1 && !connected))
		usleep(search->policy->again_pause_ms * 1000);
}

/*
 * A second decision would change this rank's number and the job's name, by which the other stripes
 * join already.
 */
static bool would_decide_again(const struct sml_stripe *stripe, const struct search *search)
{
	const struct sml_context *context = stripe->context;

	return context->settings.asks && context->decided && context->n_stripes > 1 &&
	       stripe->index == 0 && !was_ready(search);
}

static bool may_go_on(const struct sml_stripe *stripe, const struct search *search)
{
	uint64_t now_ns = sml_now_ns();
	/* Those that have begun look for a switch until their deadline. */
	bool waits = was_ready(search) || now_ns < search->until_ns;

	return search->n_lost > 0 && waits && now_ns < stripe->deadline_ns &&
	       !would_decide_again(stripe, search) &&
	       !sml_threads_is_stopping(&stripe->context->threads) &&
	       !sml_is_interrupted(stripe->context->settings.config.interrupt);
}

static void log_wait(const struct sml_stripe *stripe, struct search *search)
{
	const struct sml_settings *settings = &stripe->context->settings;
	uint64_t now_ns = sml_now_ns();

	if (sml_notice_is_due(&search->notice, now_ns) && settings->speaks)
		sml_notice_log(&search->notice, now_ns, search->until_ns,
			       "%s to begin job \"%s\" (%.300s); tried: %.500s",
			       stripe->context->form->listener->sought, settings->config.job,
			       search->lost, sml_error_last());
}

/* What belongs to the lost switch goes. False: it cannot, or there is no memory. */
static bool start_over(struct sml_stripe *stripe)
{
	if (!sml_hosts_meet_again(stripe) || !sml_stripe_retire_control(stripe))
		return false;
	sml_membership_note_rank(stripe);
	sml_data_path_close(stripe->transports);
	return true;
}

/* What was lost, too, where a switch was found first. */
static int report_search(int error, const struct search *search)
{
	char text[SML_TEXT_BYTES];

	if (error != SML_ERROR_UNREACHABLE || search->n_lost == 0 || search->policy->retries)
		return error;
	snprintf(text, sizeof(text), "%s", sml_error_last());
	if (!search->died && strcmp(text, search->lost) == 0)
		return error;
	return sml_error_set(search->died ? SML_ERROR_SWITCH_DIED : error,
			     "%.350s, and the job could not begin at "
			     "another switch: %.500s",
			     search->lost, text);
}

int sml_stripe_begin(struct sml_stripe *stripe)
{
	struct search search = {.policy = &sml_search_policies[sml_stripe_search_kind(stripe)]};
	bool connected;
	int error;

	while ((error = try_to_begin(stripe, &search, &connected)) != 0) {
		note_ready(stripe, &search);
		if (is_lost(stripe, error, connected))
			note_loss(stripe, &search, error);
		else if (!drops_membership(stripe, &search, &error) &&
			 (error != SML_ERROR_UNREACHABLE || search.policy->retries))
			break;
		take_a_break(&search, connected);
		if (!may_go_on(stripe, &search) || (connected && !start_over(stripe)))
			break;
		log_wait(stripe, &search);
	}
	return error ? report_search(error, &search) : 0;
}

/* ---- the form with switches ---- */

static int begin_at_switches(struct sml_context *context, uint64_t deadline_ns)
{
	int n = sml_endpoints_stripes(context->settings.config.switch_address);

	return n < 0 ? n
		     : sml_membership_make_stripes(context, (unsigned)n, (unsigned)n, deadline_ns);
}

static int find_switch(const struct sml_stripe *stripe, struct sml_endpoint *endpoints)
{
	return sml_endpoints_resolve(endpoints, stripe->context->settings.config.switch_address,
				     stripe->index, SML_DEFAULT_PORT);
}

static int join_switch(struct sml_stripe *stripe, const struct sml_resumption *resumption,
		       uint64_t deadline_ns)
{
	struct sml_application application = {.resumption = resumption};
	struct sml_apart apart;
	const struct sml_meanwhile meanwhile = {.self = &apart, .act = sml_apart_look};
	int error = sml_stripe_lanes(stripe, &application.lanes);

	if (error)
		return error;
	sml_hosts_advertise(stripe, &application);
	sml_control_request_join(stripe->control, &application);
	sml_apart_begin(&apart, stripe);
	error = sml_control_admission(stripe->control, &meanwhile, &stripe->admission, deadline_ns);
	sml_apart_end(&apart);
	if (error == 0 && stripe->admission.decided)
		error = sml_membership_decided(stripe);
	return error ? error
		     : sml_data_path_agree(stripe, stripe->control, stripe->transports,
					   &stripe->lanes, stripe->deadline_ns);
}

const struct sml_job_form sml_form_switches = {.has_switches = true,
					       .path = SML_PATH_SWITCH,
					       .listener = &sml_listener_switch,
					       .begin = begin_at_switches,
					       .find = find_switch,
					       .join = join_switch,
					       .ready = sml_hosts_ready};
