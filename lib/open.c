/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context's beginning and end. Opening, in order: settings, the embedded
 * switch (rank 0), the control connection, join, sockets, probes, start, and
 * only then threads.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/context.h"
#include "lib/data_path.h"
#include "lib/failover.h"
#include "lib/thread.h"

#define REJOIN_PAUSE_NS (20 * SML_NS_PER_MS)

static bool is_embedded(const struct sml_context *context)
{
	return context->settings.switch_address == NULL;
}

/*
 * The master's address. What "localhost" stands for is not looked up, as it may
 * be ::1 as well, and rank 0 must listen where all others look.
 */
static const char *master_host(const struct sml_context *context)
{
	const char *host = context->settings.master_address;

	return strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
}

static bool is_loopback(const char *host)
{
	return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

/* ---- the embedded switch ---- */

/*
 * Listens on the loopback when the master's address is one, else on all
 * addresses: what the others know this host by may be none of its own names
 * for itself. A job of one rank needs no agreed port, so any will do.
 */
static int open_switch(struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;
	struct sml_switch_config config;
	char listen[320], text[SML_TEXT_BYTES];
	const char *host = master_host(context);
	bool loopback = is_loopback(host);
	int error;

	snprintf(listen, sizeof(listen), strchr(host, ':') && loopback ? "[%s]:%u" : "%s:%u",
		 loopback ? host : "", settings->world_size == 1 ? 0 : settings->master_port);
	sml_switch_config_init(&config);
	config.listen = listen;
	config.threads = settings->threads;
	/* A failure of the job is told by the ranks already. */
	config.debug = settings->log.level >= SML_LOG_INFO ? settings->log.level : SML_LOG_ERROR;
	error = sml_switch_open(&context->embedded, &config, text, sizeof(text));
	if (error)
		return sml_error_set(error,
				     "rank 0 cannot run the job's switch: %s. "
				     "SWITCHML_MASTER_PORT chooses another port, SWITCHML_SWITCH a "
				     "switch that runs already",
				     text);
	return 0;
}

/* ---- the connection ---- */

/* Where the switch is: returns how many endpoints, or an error, told. */
static int find_switch(struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;
	const char *host = master_host(context);
	char own[320];
	int n;

	if (!is_embedded(context))
		return sml_endpoints_resolve(context->endpoints, settings->switch_address,
					     SML_DEFAULT_PORT);
	if (context->embedded && !is_loopback(host))
		host = "127.0.0.1";
	snprintf(own, sizeof(own), strchr(host, ':') ? "[%s]" : "%s", host);
	n = sml_endpoints_resolve(context->endpoints, own,
				  context->embedded ? sml_switch_port(context->embedded)
						    : settings->master_port);
	/* In texts, the embedded switch goes by the address that the others look for. */
	if (n > 0 && context->embedded)
		snprintf(context->endpoints[0].name, sizeof(context->endpoints[0].name),
			 "%.255s:%u", settings->master_address, sml_switch_port(context->embedded));
	return n;
}

static int connect_control(struct sml_context *context, uint64_t deadline_ns)
{
	int n = find_switch(context), error;
	struct sml_connect_config config = {
		.endpoints = context->endpoints,
		.n_endpoints = (unsigned)n,
		.interface = context->embedded ? NULL : context->settings.interface,
		.embedded = is_embedded(context),
		.deadline_ns = deadline_ns,
		.log = &context->settings.log,
	};

	if (n < 0)
		return n;
	context->n_endpoints = (unsigned)n;
	error = sml_connect(&context->connection, &config);
	if (error)
		return error;
	return sml_control_open(&context->control, &context->settings, &context->connection);
}

static int join(struct sml_context *context, uint64_t deadline_ns)
{
	const struct sml_interface *interface = &context->connection.interface;
	uint32_t mtu = context->settings.mtu ? context->settings.mtu : interface->mtu;
	uint16_t lanes = sml_lanes_of_mtu(mtu, interface->source.any.sa_family);

	if (lanes == 0)
		return sml_error_set(SML_ERROR_CONFIG,
				     "an MTU of %u bytes (interface %s) is too small for the "
				     "smallest packet",
				     mtu, interface->name);
	return sml_control_join(context->control, lanes, NULL, &context->admission, deadline_ns);
}

/* ---- threads ---- */

static void describe(void *self, enum sml_stream_id stream, uint32_t chunk, char *text,
		     size_t text_bytes)
{
	struct sml_context *context = self;

	pthread_mutex_lock(&context->submit_lock);
	sml_history_text(&context->history, stream, chunk, text, text_bytes);
	pthread_mutex_unlock(&context->submit_lock);
}

static void failed(void *self, int error, const char *text)
{
	sml_context_fail(self, error, text);
}

static void lost(void *self, const char *text)
{
	sml_failover_begin(self, text);
}

int sml_context_start_control(struct sml_context *context)
{
	/* An embedded switch dies with its rank: nobody can take over. */
	const struct sml_control_owner owner = {context, describe, failed,
						is_embedded(context) ? NULL : lost};

	return sml_control_start(context->control, &owner);
}

static int start_threads(struct sml_context *context)
{
	int error = 0;

	for (unsigned i = 0; error == 0 && i < context->admission.shards; i++) {
		error = sml_shard_start(context->shards[i]);
		context->n_shards += error == 0;
	}
	return error ? error : sml_context_start_control(context);
}

static void log_choices(const struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;
	const struct sml_interface *interface = &context->connection.interface;
	const struct sml_admission *admission = &context->admission;
	char source[INET6_ADDRSTRLEN];

	sml_log(&settings->log, SML_LOG_INFO,
		"job \"%s\": rank %u of %u; %s switch %s, %s dataplane; interface %s (%s, %s); "
		"%u lanes a packet (path MTU %u%s, the narrowest of all ranks); %u + %u slots "
		"(asked for %u + %u); window %u; %s wire; %u thread%s (asked for %u: %s)%s; %s%s",
		settings->job, settings->rank, settings->world_size,
		context->embedded      ? "embedded"
		: is_embedded(context) ? "rank 0's"
				       : "dedicated",
		context->connection.endpoint->name, admission->dataplane, interface->name,
		sml_sockaddr_text(&interface->source, source),
		interface->bound ? "SWITCHML_SOCKET_IFNAME" : "by the route", context->shape.lanes,
		settings->mtu ? settings->mtu : interface->mtu, settings->mtu ? " as asked" : "",
		admission->head_slots, admission->data_slots, settings->head_slots,
		settings->data_slots, context->shards[0]->worker.config.window_max,
		settings->wire == SML_WIRE_INT16 ? "int16" : "int32", admission->shards,
		admission->shards == 1 ? "" : "s", settings->threads, settings->threads_why,
		settings->spin ? ", spinning" : "", context->shards[0]->transport->features,
		context->shards[0]->transport->ops == &sml_transport_udp ? "" : "; WITH FAULTS");
}

/* ---- open and close ---- */

/* Whatever of it there is. */
static void destroy(struct sml_context *context)
{
	/* No switch is looked for any more, so the control is the last one. */
	sml_failover_fini(context);
	/* First its thread: it may be telling what the shards were waiting for. They stop by now.
	 */
	if (context->control)
		sml_control_retire(context->control);
	sml_recorder_fini(context);
	for (unsigned i = 0; i < SML_MAX_SHARDS; i++) {
		if (context->shards[i] == NULL)
			continue;
		sml_shard_fini(context->shards[i]);
	}
	if (context->n_retired == 0 || context->control != context->retired[context->n_retired - 1])
		sml_control_close(context->control);
	for (unsigned i = 0; i < context->n_retired; i++)
		sml_control_close(context->retired[i]);
	free(context->retired);
	for (unsigned i = 0; i < SML_MAX_SHARDS; i++)
		free(context->shards[i]);
	if (context->embedded)
		sml_switch_close(context->embedded);
	sml_requests_fini(&context->requests);
	sml_settings_fini(&context->settings);
	pthread_mutex_destroy(&context->submit_lock);
	pthread_mutex_destroy(&context->lock);
	pthread_cond_destroy(&context->changed);
	free(context);
}

/*
 * Connect and join. What answers where rank 0 will be may be the switch of the
 * job before, about to close with its rank 0: then once more.
 */
static int reach_switch(struct sml_context *context, uint64_t deadline_ns)
{
	bool again = is_embedded(context) && !context->embedded;
	int error;

	for (;;) {
		error = connect_control(context, deadline_ns);
		if (error)
			return error;
		error = join(context, deadline_ns);
		if (!again || (error != SML_ERROR_UNREACHABLE && error != SML_ERROR_SWITCH_DIED) ||
		    sml_now_ns() + REJOIN_PAUSE_NS >= deadline_ns)
			return error;
		sml_log(&context->settings.log, SML_LOG_TRACE, "once more: %s", sml_error_last());
		sml_control_close(context->control);
		context->control = NULL;
		poll(NULL, 0, (int)(REJOIN_PAUSE_NS / SML_NS_PER_MS));
	}
}

static int set_up(struct sml_context *context, const struct sml_config *config)
{
	uint64_t deadline_ns;
	int error = sml_settings_init(&context->settings, config);

	if (error)
		return error;
	deadline_ns = sml_now_ns() + context->settings.timeout_ms * SML_NS_PER_MS;
	if (is_embedded(context) && context->settings.rank == 0)
		error = open_switch(context);
	if (error == 0)
		error = reach_switch(context, deadline_ns);
	if (error == 0)
		error = sml_data_path_open(context, deadline_ns);
	if (error == 0)
		error = start_threads(context);
	return error;
}

int sml_open(struct sml_context **opened, const struct sml_config *config)
{
	struct sml_context *context;
	struct sml_config own;
	int error;

	*opened = NULL;
	if (config == NULL) {
		error = sml_config_init(&own);
		if (error)
			return error;
		config = &own;
	}
	context = calloc(1, sizeof(*context));
	if (context == NULL)
		return sml_error_set(-ENOMEM, "no memory for a context");
	context->owner = getpid();
	pthread_mutex_init(&context->submit_lock, NULL);
	pthread_mutex_init(&context->lock, NULL);
	sml_cond_init(&context->changed);
	sml_requests_init(&context->requests);
	error = set_up(context, config);
	if (error) {
		destroy(context);
		return error;
	}
	log_choices(context);
	*opened = context;
	return 0;
}

static void log_counters(const struct sml_context *context)
{
	struct sml_counters c = {.size = sizeof(c)};

	sml_get_counters(context, &c);
	sml_log(&context->settings.log, SML_LOG_INFO,
		"%" PRIu64 " calls, %" PRIu64 " packets sent, %" PRIu64 " received, %" PRIu64
		" sent again by the timer in %" PRIu64 " stalls, %" PRIu64
		" because later ones were answered, %" PRIu64
		" ignored, RTT %.3f ms (least %.3f), window %" PRIu64,
		c.tensors, c.packets_sent, c.packets_received, c.retransmits_timeout, c.stalls,
		c.retransmits_fast, c.packets_ignored, (double)c.rtt_ns / 1e6,
		(double)c.rtt_min_ns / 1e6, c.window);
}

/* A leaver takes part in resumes until all have asked to leave. */
static int leave(struct sml_context *context)
{
	uint64_t deadline_ns = sml_now_ns() + context->settings.timeout_ms * SML_NS_PER_MS;
	int error;

	for (;;) {
		error = sml_control_leave(__atomic_load_n(&context->control, __ATOMIC_ACQUIRE),
					  deadline_ns);
		if (error <= 0)
			return error;
		if (!sml_failover_wait(context, deadline_ns))
			return sml_error_set(SML_ERROR_SWITCH_DIED, "%s", context->failover.lost);
	}
}

int sml_close(struct sml_context *context)
{
	int error;

	if (context == NULL)
		return 0;
	/* In a child, the threads that everything belongs to do not exist. */
	if (context->owner != getpid())
		return sml_error_set(SML_ERROR_FORKED, "%s", sml_error_text(context));
	error = sml_context_check(context);
	if (error)
		sml_error_set(error, "%s", sml_error_text(context));
	else
		error = leave(context);
	log_counters(context);
	destroy(context);
	return error;
}
