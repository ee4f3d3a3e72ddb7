/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of a context's next membership: checks them, and replaces those of the last one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lib/settings/internal.h"

static int check_name(const struct sml_settings *settings, const char *name)
{
	if (name == NULL || *name == '\0')
		return sml_error_set(-EINVAL, "the membership has no job: give it a new name");
	if (strlen(name) > SML_MAX_JOB_NAME)
		return sml_error_set(-EINVAL,
				     "the job's name has %zu bytes: at most %d are allowed",
				     strlen(name), SML_MAX_JOB_NAME);
	if (strcmp(name, settings->config.job) == 0)
		return sml_error_set(
			-EINVAL,
			"this context's last job is \"%s\", too: each membership needs "
			"a name that none has had",
			name);
	return 0;
}

/* As set_ports() does. The membership's port is within its range. */
static int check_port(const struct sml_settings *settings, const struct sml_membership *membership)
{
	int port = membership->master_port ? membership->master_port : settings->config.master_port;

	if (settings->config.switch_address || membership->world_size == 1 ||
	    !sml_port_range_is_set(&settings->ports) || sml_port_range_has(&settings->ports, port))
		return 0;
	return sml_error_set(-EINVAL,
			     "master_port is %d: it must be one of SWITCHML_PORTS, %u to %u", port,
			     settings->ports.first, settings->ports.last);
}

/* The switch decides. */
static int check_request(const struct sml_settings *settings,
			 const struct sml_membership *membership)
{
	int most = membership->max_ranks ? membership->max_ranks : SML_MAX_WORLD_SIZE;

	if (!settings->config.switch_address)
		return sml_error_set(-EINVAL,
				     "without a dedicated switch, your program must decide on the "
				     "members: give job, rank and world_size, or set "
				     "SWITCHML_SWITCH on all ranks");
	if (membership->rank != 0 || membership->world_size != 0)
		return sml_error_set(-EINVAL, "the membership has a rank, but no job: give it a "
					      "new name, or leave both to the switch");
	if (membership->min_ranks < 0 || membership->max_ranks < 0 || membership->wait_ms < 0 ||
	    membership->timeout_ms < 0 || membership->min_ranks > most || most > SML_MAX_WORLD_SIZE)
		return sml_error_set(-EINVAL,
				     "min_ranks is %d, max_ranks %d, wait_ms %d, timeout_ms %d: "
				     "none may be negative, and 0 <= min_ranks <= max_ranks <= %d",
				     membership->min_ranks, membership->max_ranks,
				     membership->wait_ms, membership->timeout_ms,
				     SML_MAX_WORLD_SIZE);
	return 0;
}

/* Writes which ranks of the last job are members of the next one. None: not said. */
static int list_members(const struct sml_settings *settings,
			const struct sml_membership *membership, struct sml_ranks *members)
{
	/* The last one that has begun may still run. */
	const bool runs = settings->begun.name != NULL;
	const int own = runs ? settings->rank : settings->past.ran.rank;
	const int n = runs ? settings->world_size : settings->past.ran.world_size;

	*members = (struct sml_ranks){{0}};
	for (int i = 0; membership->previous_ranks && i < membership->world_size; i++) {
		const int rank = membership->previous_ranks[i];

		if (rank == -1 && i != membership->rank)
			continue;
		if (rank < 0 || rank >= n || (i == membership->rank) != (rank == own) ||
		    sml_ranks_has(members, (unsigned)rank))
			return sml_error_set(
				-EINVAL,
				"previous_ranks[%d] is %d, of this process's last job, "
				"where it was rank %d of %d",
				i, rank, own, n);
		sml_ranks_add(members, (unsigned)rank);
	}
	return 0;
}

static int check_move(const struct sml_settings *settings, const struct sml_membership *membership)
{
	const int most = settings->config.switch_address ? SML_MAX_WORLD_SIZE : SML_MAX_CHILDREN;
	int error = check_name(settings, membership->job);
	struct sml_ranks unused;

	if (error)
		return error;
	if (membership->world_size < 1 || membership->world_size > most)
		return sml_error_set(-EINVAL, "world_size is %d: it must be 1 to %d%s",
				     membership->world_size, most,
				     settings->config.switch_address ? "" : " without a switch");
	if (membership->rank < 0 || membership->rank >= membership->world_size)
		return sml_error_set(-EINVAL, "rank %d of a job of %d: ranks are 0 to %d",
				     membership->rank, membership->world_size,
				     membership->world_size - 1);
	if (membership->master_port < 0 || membership->master_port > 65535)
		return sml_error_set(-EINVAL, "master_port is %d: it must be 0 to 65535",
				     membership->master_port);
	if (membership->timeout_ms < 0)
		return sml_error_set(-EINVAL, "timeout_ms is %d: it must not be negative",
				     membership->timeout_ms);
	error = check_port(settings, membership);
	return error ? error : list_members(settings, membership, &unused);
}

int sml_settings_check_move(const struct sml_settings *settings,
			    const struct sml_membership *membership)
{
	return membership->job ? check_move(settings, membership)
			       : check_request(settings, membership);
}

/* *to becomes a copy. False: no memory, and it stays. */
static bool replace_text(const char **to, const char *text)
{
	char *own = strdup(text);

	if (own == NULL)
		return false;
	free((char *)(uintptr_t)*to);
	*to = own;
	return true;
}

static uint32_t or_else(int number, int otherwise)
{
	return (uint32_t)(number ? number : otherwise);
}

static int set_request(struct sml_settings *settings, const struct sml_membership *membership)
{
	settings->request_min_ranks = or_else(membership->min_ranks, settings->config.min_ranks);
	settings->request_max_ranks = or_else(membership->max_ranks, settings->config.max_ranks);
	settings->request_wait_ms = or_else(membership->wait_ms, settings->config.heartbeat_ms);
	settings->asked_ns = sml_now_ns();
	/* Until the switch has given it another name, and this process another rank. */
	return replace_text(&settings->config.job, settings->line)
		       ? 0
		       : sml_error_set(-ENOMEM, "no memory for the configuration");
}

int sml_settings_decide(struct sml_settings *settings, const struct sml_decided *decided)
{
	sml_past_ranks_note_decision(&settings->past, decided);
	if (!replace_text(&settings->config.job, decided->job))
		return sml_error_set(-ENOMEM, "no memory for the configuration");
	sml_settings_set_ranks(settings, decided->rank, decided->world_size);
	return sml_settings_set_files(settings, decided->rank);
}

void sml_settings_note_rank(struct sml_settings *settings, uint64_t tag, bool ran)
{
	const struct sml_past_rank was = {tag, settings->rank, settings->world_size, ran};

	sml_past_ranks_note(&settings->past, &was);
}

int sml_settings_move(struct sml_settings *settings, const struct sml_membership *membership)
{
	const char *master = membership->master_address;

	(void)list_members(settings, membership, &settings->past.members);
	if (settings->begun.name) {
		free(settings->follows.name);
		settings->follows = settings->begun;
		settings->begun.name = NULL;
	}
	settings->join_timeout_ms = or_else(membership->timeout_ms, (int)sml_timeout_ms(settings));
	settings->asks = membership->job == NULL;
	if (settings->asks)
		return set_request(settings, membership);
	if (!replace_text(&settings->config.job, membership->job) ||
	    !replace_text(&settings->line, membership->job) ||
	    (master && *master && !replace_text(&settings->config.master_address, master)))
		return sml_error_set(-ENOMEM, "no memory for the configuration");
	if (membership->master_port)
		settings->config.master_port = membership->master_port;
	settings->config.master_listens = 0; /* it may listen anew */
	sml_settings_set_ranks(settings, membership->rank, membership->world_size);
	sml_settings_choose_threads(settings);
	return sml_settings_set_files(settings, membership->rank);
}

void sml_settings_note_begun(struct sml_settings *settings, uint32_t changes)
{
	settings->begun = (struct sml_past_job){.name = strdup(settings->config.job),
						.n_ranks = settings->world_size,
						.changes = changes};
}
