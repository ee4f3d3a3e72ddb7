/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks a configuration and copies it. The check that finds a wrong value reports it. */
#include "lib/settings/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/plural.h"
#include "base/word.h"
#include "core/names.h"
#include "job/switch.h"
#include "lib/settings/internal.h"
#include "lib/settings/unknown.h"

static int check(const struct sml_config *config)
{
	int error = sml_config_check(config);

	if (error)
		return error;
	if (config->wire == SML_WIRE_INT64 || config->wire == SML_WIRE_GRADIENT)
		return sml_error_set(SML_ERROR_CONFIG,
				     "the wire %s is for single calls: set int32, int16, int8 or "
				     "exact",
				     sml_wire_name(config->wire));
	if (config->rank >= config->world_size)
		return sml_error_set(SML_ERROR_CONFIG,
				     "rank %d of a job of %d: ranks are 0 to %d (SWITCHML_RANK, "
				     "SWITCHML_WORLD_SIZE or the launcher's)",
				     config->rank, config->world_size, config->world_size - 1);
	if (config->max_ranks && config->max_ranks < config->min_ranks)
		return sml_error_set(SML_ERROR_CONFIG, "max_ranks is %d, below min_ranks, %d",
				     config->max_ranks, config->min_ranks);
	if (config->job && strlen(config->job) > SML_MAX_JOB_NAME)
		return sml_error_set(SML_ERROR_CONFIG,
				     "the job's name has %zu bytes: at most %d are allowed",
				     strlen(config->job), SML_MAX_JOB_NAME);
	return 0;
}

_Static_assert(SML_MAX_JOB_NAME == SML_NAME_BYTES - 1, "ranks and switches agree");
_Static_assert(SML_MAX_WORLD_SIZE == SML_MAX_WORLD, "the interface and the protocol agree");

static bool is_embedded(const struct sml_config *config)
{
	const char *address = config->switch_address;

	return !address || !*address || strcasecmp(address, "embedded") == 0;
}

static int check_embedded(const struct sml_config *config)
{
	if (config->world_size > SML_MAX_CHILDREN)
		return sml_error_set(
			SML_ERROR_CONFIG,
			"a job without a switch has at most %d ranks, not %d: start "
			"switches, the leaves with `switchml switch --parent HOST', and "
			"set SWITCHML_SWITCH to one of them for at most %d ranks each",
			SML_MAX_CHILDREN, config->world_size, SML_MAX_CHILDREN);
	/* At once, not when the other ranks have waited for a minute. */
	if (sml_launcher_hides_rank_0(config))
		return sml_error_set(
			SML_ERROR_CONFIG,
			"there are ranks on other hosts, and mpirun does not say where rank 0 is: "
			"set SWITCHML_MASTER_ADDR to its host (mpirun -x "
			"SWITCHML_MASTER_ADDR=HOST), or SWITCHML_SWITCH to a switch");
	if (config->join)
		return sml_error_set(
			SML_ERROR_CONFIG,
			"SWITCHML_JOIN=1 needs a dedicated switch, which lets this process in: "
			"set SWITCHML_SWITCH");
	return 0;
}

static int set_ports(struct sml_settings *settings)
{
	const struct sml_port_range *ports = &settings->ports;
	struct sml_config *config = &settings->config;

	if (config->ports && !sml_port_range_parse(config->ports, &settings->ports))
		return sml_error_set(SML_ERROR_CONFIG,
				     "SWITCHML_PORTS=\"%s\" is not allowed: it must be %s",
				     config->ports, SML_PORTS_ALLOWED);
	if (config->master_port == 0)
		config->master_port = config->ports ? ports->first : SML_DEFAULT_PORT;
	if (!config->ports || config->switch_address || config->world_size == 1 ||
	    sml_port_range_has(ports, config->master_port))
		return 0;
	return sml_error_set(SML_ERROR_CONFIG,
			     "rank 0's control port, %d, is not one of SWITCHML_PORTS=%s: set "
			     "SWITCHML_MASTER_PORT to one of them, or unset it",
			     config->master_port, config->ports);
}

/* ---- threads ---- */

/*
 * One progress thread for up to two cores per rank, two for up to eight, and four above that: the
 * application's own threads need the rest. If the launcher does not say how many ranks share the
 * machine, assume all of the job's ranks if they meet on its loopback, and otherwise one.
 */
static void choose_threads(struct sml_settings *settings)
{
	const struct sml_config *config = &settings->config;
	const char *where =
		config->switch_address ? config->switch_address : config->master_address;
	int local = sml_launcher_local_size();
	int n_cores = (int)sml_cores(), each;

	if (config->threads) {
		settings->threads = (uint8_t)config->threads;
		snprintf(settings->threads_why, sizeof(settings->threads_why), "as asked");
		return;
	}
	if (local == 0)
		local = strncmp(where, "127.", 4) == 0 ? settings->world_size : 1;
	each = n_cores / local;
	settings->threads = each <= 2 ? 1 : each <= 8 ? 2 : 4;
	snprintf(settings->threads_why, sizeof(settings->threads_why), "%d core%s, %d local rank%s",
		 n_cores, sml_plural((unsigned)n_cores), local, sml_plural((unsigned)local));
}

/*
 * Ranks of one host that embed their stripes: on few cores, one stripe is the least work, because
 * all packets to it leave in the longest datagrams. On many cores, its thread would be the
 * bottleneck. Half the cores are left for the ranks' own work.
 */
static uint8_t choose_local_stripes(void)
{
	int n = (int)sml_cores() / 2;

	return (uint8_t)(n < 1 ? 1 : n > SML_MAX_STRIPES ? SML_MAX_STRIPES : n);
}

static int open_tls(struct sml_settings *settings)
{
	struct sml_config *config = &settings->config;
	const struct sml_key_source key = {config->job_key, config->job_key_file};
	int keyed = sml_key_read(&settings->job_key, &key, &sml_key_variables);

	config->job_key = NULL;
	if (keyed < 0)
		return SML_ERROR_CONFIG;
	settings->tls_files = (struct sml_tls_files){.certificate = config->tls_certificate,
						     .key = config->tls_key,
						     .authority = config->tls_authority,
						     .job_key = keyed ? &settings->job_key : NULL};
	return sml_tls_open(&settings->tls, SML_TLS_WORKER, &settings->tls_files,
			    &sml_tls_variables) < 0
		       ? SML_ERROR_CONFIG
		       : 0;
}

static void set_ranks(struct sml_settings *settings, int rank, int world_size)
{
	settings->rank = (uint16_t)rank;
	settings->world_size = (uint16_t)world_size;
	settings->log.rank = rank;
	settings->speaks = rank == 0 || sml_launcher_is_first_here();
}

static void warn(void *log, const char *text)
{
	sml_log(log, SML_LOG_WARN, "%s", text);
}

/* Checks the program's, and makes it the settings'. */
static int take(struct sml_settings *settings, const struct sml_config *given)
{
	struct sml_config own;
	int error = sml_config_read(&own, given);

	/* The switch gives it a rank, whatever a launcher says. */
	if (error == 0 && own.join) {
		own.rank = 0;
		own.world_size = 1;
	}
	if (error == 0)
		error = check(&own);
	if (error == 0 && is_embedded(&own)) {
		error = check_embedded(&own);
		settings->every_rank = own.switch_address && *own.switch_address;
		own.switch_address = NULL;
	}
	if (error)
		return error;
	if (!own.job || !*own.job)
		own.job = "default";
	if (!own.master_address || !*own.master_address)
		own.master_address = "127.0.0.1";
	settings->config = own;
	error = sml_config_own(&settings->config);
	if (error)
		return error;
	settings->line = strdup(settings->config.job);
	return settings->line ? 0 : sml_error_set(-ENOMEM, "no memory for the configuration");
}

int sml_faults_parse(struct sml_faults *faults, const char *text)
{
	static const char allowed[] = "drop=N,duplicate=N,reorder=N (packets per million), "
				      "seed=N, tickets=0 or 1, fastretransmit=0 or 1";
	const char *rest = text;
	char name[16], digits[24];
	int length;
	long value;

	*faults = (struct sml_faults){.seed = 1};
	while (*rest) {
		if (sscanf(rest, "%15[a-z]=%23[0-9]%n", name, digits, &length) != 2 ||
		    !sml_parse_number(digits, 0, strcmp(name, "seed") ? 1000000 : INT64_MAX,
				      &value))
			goto wrong;
		if (strcmp(name, "drop") == 0)
			faults->drop = (uint32_t)value;
		else if (strcmp(name, "duplicate") == 0)
			faults->duplicate = (uint32_t)value;
		else if (strcmp(name, "reorder") == 0)
			faults->reorder = (uint32_t)value;
		else if (strcmp(name, "seed") == 0)
			faults->seed = (uint64_t)value;
		else if (strcmp(name, "tickets") == 0 && value <= 1)
			faults->no_tickets = value == 0;
		else if (strcmp(name, "fastretransmit") == 0 && value <= 1)
			faults->no_fast_retransmit = value == 0;
		else
			goto wrong;
		rest += length;
		if (*rest == ',' && rest[1])
			rest++;
		else if (*rest)
			goto wrong;
	}
	return 0;

wrong:
	return sml_error_set(SML_ERROR_CONFIG,
			     "SWITCHML_FAULTS=\"%s\" is not allowed: it must be %s", text, allowed);
}

/* What is parsed or opened. Returns 0 or an error, and sets the error text. */
static int open_parts(struct sml_settings *settings)
{
	const char *faults = settings->config.faults;
	int error = set_ports(settings);

	if (error == 0 && faults)
		error = sml_faults_parse(&settings->faults, faults);
	if (error == 0)
		error = open_tls(settings);
	return error ? error : sml_settings_set_files(settings, settings->config.rank);
}

static void set_slots(struct sml_settings *settings)
{
	int wanted = settings->config.slots, head = wanted / 4;

	/* No wish: the switch chooses both. */
	if (head < SML_HEAD_SLOTS_MIN && wanted > 0)
		head = SML_HEAD_SLOTS_MIN;
	if (head > SML_HEAD_SLOTS_MAX)
		head = SML_HEAD_SLOTS_MAX;
	settings->data_slots = (uint16_t)wanted;
	settings->head_slots = (uint16_t)head;
}

int sml_settings_init(struct sml_settings *settings, const struct sml_config *given)
{
	const struct sml_config *config = &settings->config;
	int error;

	*settings = (struct sml_settings){0};
	error = take(settings, given);
	if (error == 0)
		error = open_parts(settings);
	if (error)
		return error;
	if (getrandom(&settings->process, sizeof(settings->process), 0) !=
	    sizeof(settings->process))
		return sml_error_set(-EIO, "no random number for this process");
	settings->asks = config->join;
	settings->join_timeout_ms = (uint32_t)config->timeout_ms;
	settings->request_min_ranks = (uint32_t)config->min_ranks;
	settings->request_max_ranks = (uint32_t)config->max_ranks;
	settings->request_wait_ms = (uint32_t)config->heartbeat_ms;
	set_slots(settings);
	settings->log = (struct sml_log){
		.level = config->debug, .write = config->log, .self = config->log_self};
	set_ranks(settings, config->rank, config->world_size);
	if (sml_launcher_is_first_here())
		sml_variables_check(warn, &settings->log);
	choose_threads(settings);
	settings->local_stripes = choose_local_stripes();
	return 0;
}

/* ---- of the next membership: checked, and put in the place of the last one's ---- */

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
	set_ranks(settings, decided->rank, decided->world_size);
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
	set_ranks(settings, membership->rank, membership->world_size);
	choose_threads(settings);
	return sml_settings_set_files(settings, membership->rank);
}

void sml_settings_note_begun(struct sml_settings *settings, uint32_t changes)
{
	settings->begun = (struct sml_past_job){.name = strdup(settings->config.job),
						.n_ranks = settings->world_size,
						.changes = changes};
}

void sml_settings_fini(struct sml_settings *settings)
{
	sml_config_free(&settings->config);
	free(settings->follows.name);
	free(settings->begun.name);
	free((char *)(uintptr_t)settings->line);
	sml_key_wipe(&settings->job_key);
	sml_tls_close(settings->tls);
	sml_settings_free_files(settings);
}
