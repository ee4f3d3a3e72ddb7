/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/control/finder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "lib/control/internal.h"
#include "lib/settings/notice.h"
#include "net/connect.h"

/* How often it checks whether to give up. */
#define LOOK_NS (50 * SML_NS_PER_MS)

/* The state of one address that is being tried. */
struct attempt {
	struct sml_finder *finder;
	struct sml_watch *connected;
	struct sml_reached connection; /* fd -1: none, or the control's */
	struct sml_control *control;
};

struct sml_finder {
	struct sml_finder_config config;
	struct sml_search search;
	struct sml_loop *loop;
	struct attempt attempts[SML_MAX_ENDPOINTS];
	const char *names[SML_MAX_ENDPOINTS];
	struct sml_notice notice;
	int taken; /* the address of the switch that has begun; -1: none */
	int wrong; /* an error that no other address can fix */
};

/* What a failed attempt means, and what to do. */
static const char *advice(int error, const struct sml_search_policy *policy)
{
	switch (-error) {
	case ECONNREFUSED:
		return policy->refused;
	case ETIMEDOUT:
		return SML_SEARCH_NO_ANSWER;
	case EHOSTUNREACH:
	case ENETUNREACH:
		return "check the address, the network and its firewalls "
		       "(SWITCHML_SOCKET_IFNAME chooses the interface)";
	default:
		return "check the address and the network";
	}
}

/* ---- one address ---- */

static bool is_given_up(const struct sml_finder *finder)
{
	return finder->config.give_up && __atomic_load_n(finder->config.give_up, __ATOMIC_SEQ_CST);
}

static bool only_leaves(const struct sml_finder *finder)
{
	return finder->config.leaves_ns &&
	       __atomic_load_n(finder->config.leaves_ns, __ATOMIC_ACQUIRE) != 0;
}

/*
 * This rank looks no longer, and lives. A switch that has started the job would take the end of the
 * connection for its death, and ranks that wait elsewhere would wait for it in vain.
 */
static void part(const struct sml_finder *finder, struct sml_control *control)
{
	const struct sml_search *search = &finder->search;
	bool late = search->policy->joins && sml_now_ns() >= finder->config.deadline_ns;

	/* The ranks that wait there for the same ranks need not find it out themselves. */
	if (search->judges)
		sml_control_abort(control, search->error, search->tries[search->fatal].reason,
				  SML_ABORT_TOLD);
	else if ((late || is_given_up(finder)) && only_leaves(finder))
		sml_control_retreat(control);
	else if (late)
		sml_control_abort(control, SML_ERROR_ABORTED, SML_SESSION_NOT_FOUND, 0);
}

static void close_attempt(struct attempt *attempt)
{
	if (attempt->control)
		part(attempt->finder, attempt->control);
	sml_watch_free(attempt->connected);
	attempt->connected = NULL;
	sml_control_close(attempt->control);
	attempt->control = NULL;
	if (attempt->connection.fd >= 0)
		sml_fd_close(attempt->connection.fd);
	attempt->connection.fd = -1;
}

static unsigned address_of(const struct attempt *attempt)
{
	return (unsigned)(attempt - attempt->finder->attempts);
}

static void fail(struct attempt *attempt, int error, const char *reason)
{
	struct sml_finder *finder = attempt->finder;
	unsigned address = address_of(attempt);

	/* It may have started the job: then the end of the connection would look like a death. */
	if (attempt->control && sml_control_is_ready(attempt->control))
		sml_control_abort(attempt->control, error, reason, 0);

	sml_log(&finder->config.settings->log, SML_LOG_TRACE, "switch at %s: %s",
		finder->names[address], reason);
	sml_search_failed(&finder->search, address, error, reason, sml_now_ns());
	close_attempt(attempt);
}

static void fail_to_connect(struct attempt *attempt, int error)
{
	char reason[SML_REASON_LENGTH];

	snprintf(reason, sizeof(reason), "%s; %s", strerrordesc_np(-error),
		 advice(error, attempt->finder->search.policy));
	fail(attempt, error, reason);
}

static void on_connected(void *self, unsigned what)
{
	struct attempt *attempt = self;
	int error = sml_connect_result(attempt->connection.fd);

	(void)what;
	if (error) {
		fail_to_connect(attempt, error);
		return;
	}
	sml_watch_free(attempt->connected);
	attempt->connected = NULL;
	sml_search_connected(&attempt->finder->search, address_of(attempt), sml_now_ns());
}

/* Nobody connects to it: SWITCHML_PORTS is not about it. */
static int bind_source(const void *interface, const union sml_sockaddr *to, int fd)
{
	const struct sml_port_range any = {0};

	(void)to;
	(void)sml_fd_own(fd); /* now: a child of a fork() does not keep the connection */
	return sml_interface_bind(interface, &any, fd);
}

/* 0 or -errno. It is writable once it is connected, at once at the earliest. */
static int start_connecting(struct attempt *attempt)
{
	const struct sml_endpoint *endpoint = attempt->connection.endpoint;
	struct sml_reached *connection = &attempt->connection;
	int fd = sml_connect_begin(&endpoint->address, bind_source, &connection->interface);

	if (fd < 0)
		return fd;
	connection->fd = fd;
	attempt->connected = sml_watch_new(attempt->finder->loop, fd, on_connected, attempt);
	return attempt->connected ? sml_watch_set(attempt->connected, SML_WATCH_WRITE) : -ENOMEM;
}

static void try_address(struct attempt *attempt)
{
	struct sml_finder *finder = attempt->finder;
	const struct sml_endpoint *endpoint = &finder->config.endpoints[address_of(attempt)];
	int error;

	attempt->connection.endpoint = endpoint;
	error = sml_interface_choose(&attempt->connection.interface, finder->config.interface,
				     &endpoint->address, endpoint->name);
	if (error) {
		finder->wrong = error == SML_ERROR_CONFIG ? error : finder->wrong;
		fail(attempt, error, sml_error_last());
		return;
	}
	error = start_connecting(attempt);
	if (error)
		fail_to_connect(attempt, error);
}

static void join_switch(struct attempt *attempt)
{
	struct sml_finder *finder = attempt->finder;
	int error = finder->config.join(finder->config.self, &attempt->connection, finder->loop,
					&attempt->control);

	/* The control owns the socket, even if its creation fails. */
	attempt->connection.fd = -1;
	if (error)
		fail(attempt, error, sml_error_last());
}

/* What the switch has said in the meantime. */
static void look_at(struct attempt *attempt)
{
	struct sml_finder *finder = attempt->finder;
	struct sml_control *control = attempt->control;
	unsigned address = address_of(attempt);

	if (only_leaves(finder))
		finder->search.config.absence_ns = 0;
	/* Before it has begun: then all ranks are there, whatever it said earlier. */
	if (!control->session.begun)
		sml_search_missing(&finder->search, address, &control->session.missing,
				   control->session.n_more, control->session.refused,
				   control->session.n_waiting, sml_now_ns());
	if (sml_control_phase(control) == SML_SESSION_FAILED) {
		char reason[SML_REASON_LENGTH];

		snprintf(reason, sizeof(reason), "%.199s", control->session.text);
		fail(attempt, control->session.error, reason);
		return;
	}
	if (sml_control_phase(control) == SML_SESSION_LEFT)
		sml_search_left(&finder->search, address);
	if (!control->session.begun || finder->taken >= 0)
		return;
	finder->taken = (int)address;
	sml_search_began(&finder->search, address, sml_now_ns());
}

/* ---- the loop ---- */

static void do_action(struct sml_finder *finder)
{
	struct sml_search_action action;

	while (!finder->wrong && sml_search_next(&finder->search, sml_now_ns(), &action)) {
		struct attempt *attempt = &finder->attempts[action.address];

		switch (action.verb) {
		case SML_SEARCH_CONNECT:
			try_address(attempt);
			break;
		case SML_SEARCH_JOIN:
			join_switch(attempt);
			break;
		case SML_SEARCH_CLOSE:
			close_attempt(attempt);
			break;
		}
	}
}

static void log_wait(struct sml_finder *finder, uint64_t now_ns)
{
	const struct sml_finder_config *config = &finder->config;
	const char *what = finder->search.policy->what;
	char tried[SML_TEXT_BYTES];

	if (!sml_notice_is_due(&finder->notice, now_ns) || !config->settings->speaks)
		return;
	sml_search_report(&finder->search, now_ns, tried, config->lost ? 501 : 701);
	if (config->lost)
		sml_notice_log(&finder->notice, now_ns, config->deadline_ns,
			       "%s job \"%s\" (%.250s); tried: %s", what,
			       config->settings->config.job, config->lost, tried);
	else
		sml_notice_log(&finder->notice, now_ns, config->deadline_ns,
			       "%s of job \"%s\" to answer at %s", what,
			       config->settings->config.job, tried);
}

static void wait_for_news(struct sml_finder *finder)
{
	uint64_t now_ns = sml_now_ns(), until_ns;

	log_wait(finder, now_ns);
	until_ns = sml_notice_wake(&finder->notice, sml_search_deadline(&finder->search));
	if (finder->config.give_up && until_ns > now_ns + LOOK_NS)
		until_ns = now_ns + LOOK_NS;
	(void)sml_loop_turn(finder->loop, until_ns);
	for (unsigned i = 0; i < finder->config.n_endpoints; i++)
		if (finder->attempts[i].control)
			look_at(&finder->attempts[i]);
}

static void notify_owner(const struct sml_finder *finder)
{
	char text[SML_TRIED_BYTES];

	if (finder->config.tell == NULL)
		return;
	sml_search_report(&finder->search, sml_now_ns(), text, sizeof(text));
	finder->config.tell(finder->config.self, text);
}

static int report_failure(const struct sml_finder *finder)
{
	const struct sml_search_policy *policy = finder->search.policy;
	char text[801];

	if (finder->wrong)
		return finder->wrong;
	sml_search_report(&finder->search, sml_now_ns(), text, sizeof(text));
	if (policy->joins || finder->config.n_endpoints > 1)
		return sml_error_set(finder->search.error,
				     policy->joins ? "%s" : "no switch can be reached: %s", text);
	return sml_error_set(finder->search.error, "%s at %s cannot be reached: %s", policy->what,
			     finder->names[0], finder->search.tries[0].reason);
}

/* Until a switch is found, has begun, or none will: 0, SML_FINDER_LEFT, or a negative error, and
 * then sets the error text. */
static int find_switch(struct sml_finder *finder)
{
	for (;;) {
		do_action(finder);
		if (finder->wrong || finder->search.outcome == SML_SEARCH_FAILED)
			return report_failure(finder);
		if (finder->search.outcome == SML_SEARCH_LEFT)
			return SML_FINDER_LEFT;
		if (finder->taken >= 0 || finder->search.outcome == SML_SEARCH_FOUND)
			return 0;
		if (finder->config.moved && __atomic_load_n(finder->config.moved, __ATOMIC_ACQUIRE))
			return SML_FINDER_MOVED;
		if (is_given_up(finder))
			return sml_error_set(SML_ERROR_CLOSED, "the context is being closed");
		if (sml_is_interrupted(finder->config.interrupt))
			return sml_control_set_interrupted();
		notify_owner(finder);
		wait_for_news(finder);
	}
}

/* ---- for the caller ---- */

int sml_finder_open(struct sml_finder **opened, const struct sml_finder_config *config)
{
	struct sml_finder *finder = calloc(1, sizeof(*finder));
	struct sml_search_config search = {
		.n_addresses = config->n_endpoints,
		.first = config->first,
		.kind = config->kind,
		.deadline_ns = config->deadline_ns,
		.absence_ns = sml_search_policies[config->kind].joins
				      ? sml_search_absence_ns(config->heartbeat_ms)
				      : 0,
	};

	int error = finder ? sml_loop_open(&finder->loop) : -ENOMEM;

	if (error) {
		free(finder);
		return sml_error_set(error,
				     "no memory or file descriptors to look for a switch: %s "
				     "(the limit of descriptors: ulimit -n)",
				     strerrordesc_np(-error));
	}
	finder->config = *config;
	finder->taken = -1;
	for (unsigned i = 0; i < config->n_endpoints; i++) {
		finder->names[i] = config->endpoints[i].name;
		search.switches[i] = config->endpoints[i].set;
	}
	for (unsigned i = 0; i < SML_MAX_ENDPOINTS; i++) {
		finder->attempts[i].finder = finder;
		finder->attempts[i].connection.fd = -1;
	}
	search.names = finder->names;
	sml_search_init(&finder->search, &search, sml_now_ns());
	sml_notice_begin(&finder->notice, config->settings, sml_now_ns());
	*opened = finder;
	return 0;
}

int sml_finder_connect(struct sml_finder *finder, struct sml_reached *connection)
{
	int error = find_switch(finder);

	if (error)
		return error;
	*connection = finder->attempts[finder->search.found].connection;
	finder->attempts[finder->search.found].connection.fd = -1;
	return 0;
}

int sml_finder_meet(struct sml_finder *finder, struct sml_control **control,
		    struct sml_reached *connection)
{
	int error = find_switch(finder);

	if (error)
		return error;
	/* The others are left. */
	do_action(finder);
	/* If the deadline has passed in the meantime, all are. */
	if (finder->search.outcome == SML_SEARCH_FAILED)
		return report_failure(finder);
	*control = finder->attempts[finder->taken].control;
	*connection = finder->attempts[finder->taken].connection;
	return 0;
}

void sml_finder_reject(struct sml_finder *finder, int error)
{
	char reason[SML_REASON_LENGTH];

	snprintf(reason, sizeof(reason), "%.199s", sml_error_last());
	fail(&finder->attempts[finder->taken], error, reason);
	finder->taken = -1;
}

void sml_finder_keep(struct sml_finder *finder)
{
	struct attempt *attempt = &finder->attempts[finder->taken];

	sml_search_started(&finder->search, (unsigned)finder->taken);
	sml_control_own_loop(attempt->control);
	finder->loop = NULL;
	attempt->control = NULL;
}

/* This rank has given its job up. */
static void send_abort_message(struct sml_finder *finder)
{
	struct sml_abort_message message;

	if (!is_given_up(finder) || !finder->config.get_abort_message ||
	    !finder->config.get_abort_message(finder->config.self, &message))
		return;
	for (unsigned i = 0; i < finder->config.n_endpoints; i++)
		if (finder->attempts[i].control)
			sml_control_abort(finder->attempts[i].control, message.error, message.text,
					  message.kinds);
}

void sml_finder_close(struct sml_finder *finder)
{
	if (finder == NULL)
		return;
	send_abort_message(finder);
	for (unsigned i = 0; i < finder->config.n_endpoints; i++)
		close_attempt(&finder->attempts[i]);
	sml_loop_close(finder->loop);
	free(finder);
}
