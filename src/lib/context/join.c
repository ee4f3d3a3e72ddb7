/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/membership.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "lib/control/finder.h"
#include "lib/progress/line.h"
#include "lib/progress/threads.h"
#include "net/address.h"

/* In Call.wire: besides the wire, which the other calls may have, too. */
#define GATHERS 64

/* That a switch may take to answer, because TCP resends what was lost after a second. */
#define TELL_NS (2 * SML_NS_PER_SEC)

enum sml_search_kind sml_stripe_search_kind(const struct sml_stripe *stripe)
{
	if (stripe->context->form->has_switches)
		return SML_SEARCH_SWITCH;
	return stripe->context->settings.config.master_listens ? SML_SEARCH_LISTENER
							       : SML_SEARCH_RANK_0;
}

/*
 * "localhost" is not looked up: it may also be ::1, and rank 0 must listen where all other ranks
 * connect.
 */
const char *sml_master_host(const struct sml_context *context)
{
	const char *host = context->settings.config.master_address;

	return strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
}

/* ---- the connection ---- */

/* Where the switch is now. 0, or a negative error, and then sets the error text. */
static int find_switch(struct sml_stripe *stripe)
{
	struct sml_endpoints *found = calloc(1, sizeof(*found));
	int n;

	if (found == NULL)
		return sml_error_set(-ENOMEM, "no memory for the addresses of the switch");
	n = stripe->context->form->find(stripe, found->at);
	if (n < 0 || (stripe->endpoints && stripe->endpoints->n == (unsigned)n &&
		      memcmp(found->at, stripe->endpoints->at, sizeof(found->at)) == 0)) {
		free(found);
		return n < 0 ? n : 0;
	}
	found->n = (unsigned)n;
	found->before = stripe->endpoints;
	stripe->endpoints = found;
	return 0;
}

void sml_stripe_set_connection(struct sml_stripe *stripe, const struct sml_reached *connection)
{
	stripe->connection = *connection;
	__atomic_store_n(&stripe->name, connection->endpoint->name, __ATOMIC_RELEASE);
}

/* The switch that was lost comes last, because it may be frozen. */
static unsigned first_to_try(const struct sml_stripe *stripe)
{
	sml_assert(stripe->endpoints->n > 0);
	/* Only the switch that ran the job can decide without some of its ranks. */
	if (stripe->n_retired == 0 && stripe->context->settings.asks && stripe->index == 0)
		return stripe->context->last_switch % stripe->endpoints->n;
	return stripe->n_retired == 0
		       ? 0
		       : sml_search_begin_after(sml_endpoints_place(stripe->endpoints,
								    stripe->connection.endpoint),
						stripe->endpoints->n, stripe->n_lost);
}

static int connect_to(const struct sml_stripe *stripe, const struct sml_finder_config *where,
		      struct sml_reached *connection)
{
	const struct sml_context *context = stripe->context;
	struct sml_finder_config config = *where;
	struct sml_finder *finder;
	int error;

	config.interface = context->embedded ? NULL : context->settings.config.interface;
	config.kind = sml_stripe_search_kind(stripe);
	config.settings = &context->settings;
	config.give_up = &context->threads.stop;
	config.interrupt = context->settings.config.interrupt;
	error = sml_finder_open(&finder, &config);
	if (error)
		return error;
	error = sml_finder_connect(finder, connection);
	sml_finder_close(finder);
	return error;
}

static int connect_to_first(struct sml_stripe *stripe)
{
	const struct sml_finder_config where = {
		.endpoints = stripe->endpoints->at,
		.n_endpoints = stripe->endpoints->n,
		.first = first_to_try(stripe),
		.deadline_ns = stripe->deadline_ns,
	};
	struct sml_reached connection;
	int error = connect_to(stripe, &where, &connection);

	if (error == 0)
		sml_stripe_set_connection(stripe, &connection);
	return error;
}

/* The last job's, if this rank may meet the others of its list at another one; else NULL. */
static const struct sml_endpoint *last_switch(const struct sml_stripe *stripe)
{
	const struct sml_context *context = stripe->context;
	const struct sml_endpoint *last =
		&stripe->endpoints->at[context->last_switch % stripe->endpoints->n];

	return stripe->index == 0 && stripe->n_retired == 0 && !context->settings.asks &&
			       context->settings.past.admitted.tag != 0 &&
			       last->set != stripe->connection.endpoint->set
		       ? last
		       : NULL;
}

int sml_stripe_open_control(const struct sml_stripe *stripe, const struct sml_reached *connection,
			    struct sml_loop *loop, struct sml_control **control)
{
	const struct sml_context *context = stripe->context;
	const struct sml_settings *settings = &context->settings;
	/* 0: none is wanted, because rank 0 chooses how many ranks embed one. */
	const unsigned n_wanted = context->form->has_switches ? context->n_stripes
				  : settings->every_rank      ? settings->world_size
							      : 0;
	const struct sml_stripe_index place = {stripe->index, (uint8_t)n_wanted,
					       context->form->listener};
	int error = sml_control_open(control, settings, connection, &place, loop);

	if (error == 0)
		sml_control_watch(*control, &context->threads.stop);
	return error;
}

int sml_stripe_open_beside(const struct sml_stripe *stripe, const struct sml_endpoint *endpoint,
			   uint64_t deadline_ns, struct sml_control **control)
{
	const struct sml_finder_config where = {
		.endpoints = endpoint,
		.n_endpoints = 1,
		.deadline_ns = sml_earlier(deadline_ns, stripe->deadline_ns),
	};
	struct sml_reached connection;
	int error = connect_to(stripe, &where, &connection);

	return error ? error : sml_stripe_open_control(stripe, &connection, NULL, control);
}

int sml_stripe_tell_last_switch(struct sml_stripe *stripe)
{
	const struct sml_endpoint *last = last_switch(stripe);
	const uint64_t deadline_ns = sml_earlier(sml_now_ns() + TELL_NS, stripe->deadline_ns);
	struct sml_application application = {.elsewhere = true};
	struct sml_admission unused;
	struct sml_control *control;
	int error;

	if (last == NULL || sml_stripe_open_beside(stripe, last, deadline_ns, &control) != 0)
		return 0;
	error = sml_control_join(control, &application, &unused, deadline_ns);
	sml_control_close(control);
	return error == SML_ERROR_MISMATCH ? error : 0;
}

int sml_stripe_connect_control(struct sml_stripe *stripe)
{
	int error = find_switch(stripe);

	if (error == 0)
		error = connect_to_first(stripe);
	return error ? error
		     : sml_stripe_open_control(stripe, &stripe->connection, NULL, &stripe->control);
}

int sml_stripe_lanes(const struct sml_stripe *stripe, uint16_t *lanes)
{
	const struct sml_settings *settings = &stripe->context->settings;
	const struct sml_interface *interface = &stripe->connection.interface;
	uint32_t mtu = settings->config.mtu ? (uint32_t)settings->config.mtu : interface->mtu;

	*lanes = sml_lanes_of_mtu(mtu, interface->source.any.sa_family);
	if (*lanes == 0)
		return sml_error_set(SML_ERROR_CONFIG,
				     "an MTU of %u bytes (interface %s) is too small for the "
				     "smallest packet",
				     mtu, interface->name);
	return 0;
}

/* ---- the control connection's thread ---- */

static void fill_in_call(SmlControl__Call *out, const struct sml_call *call)
{
	out->collective = call->collective;
	out->number = call->number;
	out->count = call->count;
	out->type = call->type;
	out->op = call->op;
	out->root = call->root;
	out->residual = call->residual;
	out->wire = sml_call_has_wire(call) ? 1 + (uint32_t)call->wire : 0;
	out->wire += call->gathers ? GATHERS : 0;
}

static bool describe(void *self, enum sml_stream_id stream, uint32_t chunk, char *text,
		     size_t text_bytes, SmlControl__Call *out)
{
	struct sml_context *context = ((struct sml_stripe *)self)->context;
	const struct sml_call *call;

	pthread_mutex_lock(&context->submit_lock);
	sml_history_text(&context->history, stream, chunk, text, text_bytes);
	call = sml_history_find(&context->history, stream, chunk);
	if (call)
		fill_in_call(out, call);
	pthread_mutex_unlock(&context->submit_lock);
	return call != NULL;
}

static void pack_waits(void *self, size_t room, struct sml_waits_message *waits)
{
	const struct sml_stripe *stripe = self;
	struct sml_context *context = stripe->context;
	struct sml_stall_report *report =
		sml_context_is_running(context)
			? sml_question_query(&context->threads, stripe->index)
			: NULL;

	sml_waits_pack(report ? &report->waits : NULL, room, waits);
	sml_stall_report_close(report);
}

static void get_stripe_status(void *self, SmlControl__StripeStatus *status,
			      uint64_t waited_ms[SML_MAX_CHILDREN])
{
	struct sml_context *context = ((struct sml_stripe *)self)->context;
	struct sml_counters counters = {.size = sizeof(counters)};

	if (!sml_context_is_running(context))
		return;
	if (!context->threads.own) {
		status->stripe = context->settings.rank;
		status->contributions =
			__atomic_load_n(&context->threads.host->contributions, __ATOMIC_RELAXED);
		return;
	}
	sml_embedded_stripe_status(context->threads.own, status, waited_ms);
	sml_context_count_stripe(context, context->threads.own->rank, &counters);
	status->bytes_received = counters.bytes_received;
	status->bytes_sent = counters.bytes_sent;
}

/* Through this stripe's switch; where ranks have the slots, one connection tells of all stripes. */
static bool get_traffic(void *self, SmlControl__Traffic *traffic)
{
	const struct sml_stripe *stripe = self;
	struct sml_context *context = stripe->context;
	struct sml_counters counters = {.size = sizeof(counters)};
	uint64_t waited_ns = 0;

	if (!sml_context_is_running(context))
		return false;
	if (context->form->has_switches)
		sml_context_count_stripe(context, stripe->index, &counters);
	else
		sml_context_count(context, &counters);
	traffic->packets_sent = counters.packets_sent;
	traffic->packets_received = counters.packets_received;
	traffic->bytes_sent = counters.bytes_sent;
	traffic->bytes_received = counters.bytes_received;
	traffic->retransmits_timeout = counters.retransmits_timeout;
	traffic->retransmits_fast = counters.retransmits_fast;
	traffic->link_mbits = stripe->connection.interface.link_mbits;
	for (unsigned i = 0; context->threads.host && i < context->n_stripes; i++)
		waited_ns += __atomic_load_n(&context->threads.host[i].waited_ns, __ATOMIC_RELAXED);
	traffic->waited_ms = waited_ns / SML_NS_PER_MS;
	return true;
}

/*
 * Of the stripe's switch. The shards are there as long as the control has its thread and they run.
 */
static uint64_t results(void *self)
{
	const struct sml_stripe *stripe = self;
	uint64_t n = 0;

	if (!sml_context_is_running(stripe->context))
		return 0;
	for (unsigned i = 0; i < stripe->n_shards; i++)
		n += __atomic_load_n(&stripe->shards[i]->counters.packets_received,
				     __ATOMIC_RELAXED);
	/* Where another rank of this host receives them, this one contributes again after them. */
	if (stripe->context->threads.host)
		n += __atomic_load_n(&stripe->context->threads.host[stripe->index].contributions,
				     __ATOMIC_RELAXED);
	return n;
}

static void job_failed(void *self, int error, const char *text, bool planned)
{
	sml_context_fail_remote(((struct sml_stripe *)self)->context, error, text, planned);
}

static void ticked(void *self)
{
	const struct sml_stripe *stripe = self;

	sml_context_remind(stripe->context);
	sml_wait_notices_check(stripe->context);
}

static void switch_lost(void *self, const char *text)
{
	sml_failover_begin(self, text);
}

int sml_stripe_start_control(struct sml_stripe *stripe)
{
	/* An embedded switch dies with its rank: nobody can take over. */
	bool may_be_lost = stripe->context->form->has_switches;
	const struct sml_control_owner owner = {
		{stripe, describe, pack_waits, get_stripe_status, get_traffic},
		may_be_lost ? results : NULL,
		job_failed,
		ticked,
		may_be_lost ? switch_lost : NULL,
	};

	return sml_control_start(stripe->control, &owner);
}
