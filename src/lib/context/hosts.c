/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fork.h"
#include "lib/context/data_path.h"
#include "lib/context/hosts_meet.h"

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
		sml_hosts_drop_met(&context->stripes[i]);
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
		sml_hosts_drop_met(stripe);
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

static void free_hosts(struct sml_context *context)
{
	struct sml_host *hosts = context->threads.host;

	context->threads.host = NULL;
	if (hosts == NULL)
		return;
	for (unsigned i = 0; i < context->n_stripes; i++)
		sml_host_unmap(&hosts[i].memory);
	if (hosts->leader_fd >= 0)
		close(hosts->leader_fd);
	free(hosts);
}

void sml_hosts_fini(struct sml_context *context)
{
	stop_handshake(context);
	free_hosts(context);
}
