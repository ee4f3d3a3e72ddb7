/* SPDX-License-Identifier: BSD-3-Clause */
/* Where rank 0's control port listens: see membership.h. */
#include "lib/context/membership.h"

#include <errno.h>
#include <ifaddrs.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/least.h"
#include "lib/control/endpoints.h"
#include "lib/transport/interface.h"
#include "net/address.h"
#include "net/connect.h"

#define REJOIN_PAUSE_NS (20 * SML_NS_PER_MS)
/* How long the last rank 0 of this host may take to close the port: it must notice the change. */
#define PORT_PATIENCE_NS (10 * SML_NS_PER_SEC)
/* They share the application's descriptor limit. */
#define MAX_STRANGERS 128

/* ---- at which address ---- */

/* Link-local addresses need a scope, which our texts do not have. */
static bool copy_usable(const struct sockaddr *from, union sml_sockaddr *to)
{
	if (from == NULL || (from->sa_family != AF_INET && from->sa_family != AF_INET6))
		return false;
	memset(to, 0, sizeof(*to));
	memcpy(to, from, from->sa_family == AF_INET ? sizeof(to->v4) : sizeof(to->v6));
	return from->sa_family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&to->v6.sin6_addr);
}

static bool is_of_host(const struct ifaddrs *all, const char *text)
{
	char own[INET6_ADDRSTRLEN];
	union sml_sockaddr address;

	for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next)
		if (copy_usable(i->ifa_addr, &address) &&
		    strcmp(sml_sockaddr_text(&address, own), text) == 0)
			return true;
	return false;
}

/* False: none, or more than one. */
static bool choose_by_name(const struct ifaddrs *all, const char *master, char *text)
{
	union sml_sockaddr found[SML_MAX_ENDPOINTS];
	int n_found = sml_resolve(master, 0, found, SML_MAX_ENDPOINTS);
	unsigned n = 0;

	for (int i = 0; i < n_found; i++) {
		char candidate[INET6_ADDRSTRLEN];
		union sml_sockaddr address;

		if (!copy_usable(&found[i].any, &address) || sml_sockaddr_is_loopback(&address) ||
		    !is_of_host(all, sml_sockaddr_text(&address, candidate)))
			continue;
		memcpy(text, candidate, sizeof(candidate));
		n++;
	}
	return n == 1;
}

static bool choose_by_interface(const struct ifaddrs *all, const char *filter, char *text)
{
	union sml_sockaddr address;

	for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next)
		if (sml_interface_matches(filter, i->ifa_name) &&
		    copy_usable(i->ifa_addr, &address)) {
			(void)sml_sockaddr_text(&address, text);
			return true;
		}
	return false;
}

void sml_listen_choose(const char *master, const char *filter, char text[INET6_ADDRSTRLEN])
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		all = NULL;
	if (!choose_by_name(all, master, text) &&
	    !(filter != NULL && choose_by_interface(all, filter, text)))
		text[0] = '\0';
	freeifaddrs(all);
}

/* ---- at which port ---- */

static int listen_at(struct sml_switch **opened, struct sml_switch_config *config, const char *host,
		     unsigned port)
{
	char listen[320];

	sml_host_port_text(listen, sizeof(listen), host, port);
	config->listen = listen;
	return sml_switch_open(opened, config);
}

/* A job of one rank needs no agreed port: any free one of those that it may open. */
static int listen_anywhere(struct sml_context *context, struct sml_switch_config *config,
			   const char *host)
{
	const struct sml_port_range *ports = &context->settings.ports;
	int error = -EADDRINUSE;

	if (!sml_port_range_is_set(ports))
		return listen_at(&context->embedded, config, host, 0);
	for (unsigned port = ports->first; error == -EADDRINUSE && port <= ports->last; port++)
		error = listen_at(&context->embedded, config, host, port);
	return error;
}

/* At the agreed port. */
static int listen_for_all(const struct sml_context *context, struct sml_switch **opened,
			  struct sml_switch_config *config, const char *host, uint64_t until_ns)
{
	int error;

	for (;;) {
		error = listen_at(opened, config, host,
				  (unsigned)context->settings.config.master_port);
		if (error != -EADDRINUSE || sml_now_ns() + REJOIN_PAUSE_NS >= until_ns ||
		    sml_is_interrupted(context->settings.config.interrupt))
			return error;
		poll(NULL, 0, (int)(REJOIN_PAUSE_NS / SML_NS_PER_MS));
	}
}

/* Until when the port's last owner may close it. */
static uint64_t end_of_patience(const struct sml_context *context, uint64_t deadline_ns)
{
	bool is_first = !__atomic_load_n(&context->changing, __ATOMIC_SEQ_CST);

	return is_first ? 0 : sml_earlier(sml_now_ns() + PORT_PATIENCE_NS, deadline_ns);
}

static void configure(const struct sml_context *context, struct sml_switch_config *config)
{
	const struct sml_settings *settings = &context->settings;

	sml_switch_config_init(config);
	config->rendezvous = true;
	config->local_stripes = settings->local_stripes;
	config->max_strangers = MAX_STRANGERS;
	config->only_job = settings->config.job;
	config->only_world_size = settings->world_size;
	config->tls = settings->tls_files;
	config->tls_names = sml_tls_variables;
	/* The ranks already report a failure of the job. */
	config->debug = settings->log.level >= SML_LOG_INFO ? SML_LOG_TRACE : SML_LOG_ERROR;
}

struct sml_switch *sml_listen_open_beside(struct sml_context *context)
{
	struct sml_switch *opened = NULL;
	struct sml_switch_config config;
	const char *host = sml_master_host(context);

	if (context->settings.config.master_port == SML_DEFAULT_PORT)
		return NULL;
	/* To look up a name may take longer than the switch waits for a sign of this rank. */
	if (!sml_is_loopback_name(host))
		host = "";
	configure(context, &config);
	config.only_elsewhere = true;
	return listen_for_all(context, &opened, &config, host, 0) == 0 ? opened : NULL;
}

static void choose_host(const struct sml_context *context, char host[INET6_ADDRSTRLEN])
{
	const char *master = sml_master_host(context);

	if (sml_is_loopback_name(master))
		snprintf(host, INET6_ADDRSTRLEN, "%s", master);
	else
		sml_listen_choose(master, context->settings.config.interface, host);
}

/* The last job's port, where the ranks of the next one come? */
static bool stays_open(const struct sml_context *context, const char *host)
{
	/* It has read the files of TLS, which may have been replaced since. */
	if (context->embedded == NULL || context->settings.tls_files.certificate != NULL)
		return false;
	return context->settings.world_size > 1 && strcmp(host, context->listen_address) == 0 &&
	       sml_switch_port(context->embedded) == context->settings.config.master_port;
}

int sml_listen_open(struct sml_context *context, uint64_t deadline_ns)
{
	struct sml_switch_config config;
	char host[INET6_ADDRSTRLEN];
	int error;

	choose_host(context, host);
	configure(context, &config);
	/* It knows which ranks of the last job have died (job/join/past_ranks.c). */
	if (stays_open(context, host)) {
		error = sml_switch_reload(context->embedded, &config);
	} else {
		sml_listen_close(context);
		memcpy(context->listen_address, host, sizeof(host));
		error = context->settings.world_size == 1
				? listen_anywhere(context, &config, host)
				: listen_for_all(context, &context->embedded, &config, host,
						 end_of_patience(context, deadline_ns));
	}
	if (error)
		return sml_error_set(
			error, "rank 0 cannot open the job's control port: %s%s", sml_error_last(),
			error == -EADDRINUSE || error == -EACCES
				? ". Set SWITCHML_MASTER_PORT to choose another port, or "
				  "SWITCHML_SWITCH to use a running switch"
				: "");
	return 0;
}

void sml_listen_close(struct sml_context *context)
{
	sml_switch_close(context->embedded);
	context->embedded = NULL;
	context->listen_address[0] = '\0';
}
