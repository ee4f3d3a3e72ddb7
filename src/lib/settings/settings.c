/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks a configuration and copies it. The check that finds a wrong value reports it. */
#include "lib/settings/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cores.h"
#include "base/error.h"
#include "base/plural.h"
#include "job/switch.h"
#include "lib/settings/internal.h"
#include "lib/settings/unknown.h"

static int check_range(const char *member, long value, long minimum, long maximum)
{
	if (value >= minimum && value <= maximum)
		return 0;
	return sml_error_set(SML_ERROR_CONFIG, "%s is %ld: it must be %ld to %ld", member, value,
			     minimum, maximum);
}

static int check(const struct sml_config *config)
{
	const struct {
		const char *member;
		long value, minimum, maximum;
	} ranges[] = {
		{"world_size", config->world_size, 1, SML_MAX_WORLD_SIZE},
		{"rank", config->rank, 0, SML_MAX_WORLD_SIZE - 1},
		{"master_port", config->master_port, 0, 65535},
		{"timeout_ms", config->timeout_ms, 1, INT32_MAX},
		{"heartbeat_ms", config->heartbeat_ms, 100, 60000},
		{"wait_notice_ms", config->wait_notice_ms, 0, INT32_MAX},
		{"wire", (long)config->wire, SML_WIRE_DEFAULT, SML_WIRE_INT8},
		{"slots", config->slots, 0, SML_DATA_SLOTS_MAX},
		{"threads", config->threads, 0, SML_MAX_SHARDS},
		{"mtu", config->mtu, 0, 65535},
		{"host_group", config->host_group, -1, 1},
		{"summary", config->summary, 0, 1},
		{"join", config->join, 0, 1},
		{"min_ranks", config->min_ranks, 0, SML_MAX_WORLD_SIZE},
		{"max_ranks", config->max_ranks, 0, SML_MAX_WORLD_SIZE},
		{"debug", config->debug, SML_LOG_ERROR, SML_LOG_TRACE},
	};
	int error;

	error = sml_config_check_ranks(config);
	if (error)
		return error;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		error = check_range(ranges[i].member, ranges[i].value, ranges[i].minimum,
				    ranges[i].maximum);
		if (error)
			return error;
	}
	if (config->wire == SML_WIRE_INT64)
		return sml_error_set(SML_ERROR_CONFIG,
				     "the wire cannot be int64, which only float64 uses by itself: "
				     "set int32, int16, int8 or exact");
	if (config->rank >= config->world_size)
		return sml_error_set(SML_ERROR_CONFIG,
				     "rank %d of a job of %d: ranks are 0 to %d (SWITCHML_RANK, "
				     "SWITCHML_WORLD_SIZE or the launcher's)",
				     config->rank, config->world_size, config->world_size - 1);
	if (config->max_ranks && config->max_ranks < config->min_ranks)
		return sml_error_set(SML_ERROR_CONFIG,
				     "max_ranks is %d, below min_ranks, %d (SWITCHML_MAX_RANKS, "
				     "SWITCHML_MIN_RANKS)",
				     config->max_ranks, config->min_ranks);
	if (config->job && strlen(config->job) > SML_MAX_JOB_NAME)
		return sml_error_set(SML_ERROR_CONFIG,
				     "the job's name has %zu bytes: at most %d are allowed",
				     strlen(config->job), SML_MAX_JOB_NAME);
	return 0;
}

_Static_assert(SML_MAX_JOB_NAME == SML_NAME_BYTES - 1, "ranks and switches agree");
_Static_assert(SML_MAX_WORLD_SIZE == SML_MAX_WORLD, "the interface and the protocol agree");

/* ---- ports ---- */

static int set_ports(struct sml_settings *settings, const struct sml_config *config)
{
	int master = config->master_port;

	if (!config->ports || !*config->ports)
		return 0;
	if (!sml_port_range_parse(config->ports, &settings->ports))
		return sml_error_set(SML_ERROR_CONFIG,
				     "SWITCHML_PORTS=\"%s\" is not allowed: it must be %s",
				     config->ports, SML_PORTS_ALLOWED);
	if (settings->switch_address || config->world_size == 1 || master == 0 ||
	    sml_port_range_has(&settings->ports, master))
		return 0;
	return sml_error_set(SML_ERROR_CONFIG,
			     "rank 0's control port, %d, is not one of SWITCHML_PORTS=%s: set "
			     "SWITCHML_MASTER_PORT to one of them, or unset it",
			     master, config->ports);
}

static uint16_t master_port(const struct sml_settings *settings, const struct sml_config *config)
{
	if (config->master_port)
		return (uint16_t)config->master_port;
	return sml_port_range_is_set(&settings->ports) ? settings->ports.first : SML_DEFAULT_PORT;
}

/* ---- threads ---- */

/*
 * One progress thread for up to two cores per rank, two for up to eight, and four above that: the
 * application's own threads need the rest. If the launcher does not say how many ranks share the
 * machine, assume all of the job's ranks if they meet on its loopback, and otherwise one.
 */
void sml_settings_choose_threads(struct sml_settings *settings, int wanted)
{
	const char *where =
		settings->switch_address ? settings->switch_address : settings->master_address;
	int local = sml_launcher_local_size();
	int n_cores = (int)sml_cores(), each;

	if (wanted) {
		settings->threads = (uint8_t)wanted;
		settings->threads_set = true;
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

/* ---- TLS ---- */

/* NULL stays NULL, and an empty string becomes NULL. False: no memory. */
static bool copy_path(const char **to, const char *path)
{
	*to = path && *path ? strdup(path) : NULL;
	return *to || !path || !*path;
}

static const char *if_any(const char *text)
{
	return text && *text ? text : NULL;
}

static int open_tls(struct sml_settings *settings, const struct sml_config *config)
{
	const struct sml_key_source key = {if_any(config->job_key), if_any(config->job_key_file)};
	struct sml_tls_files *files = &settings->tls_files;
	int keyed;

	if (!copy_path(&files->certificate, config->tls_certificate) ||
	    !copy_path(&files->key, config->tls_key) ||
	    !copy_path(&files->authority, config->tls_authority))
		return sml_error_set(-ENOMEM, "no memory for the configuration");
	keyed = sml_key_read(&settings->job_key, &key, &sml_key_variables);
	if (keyed < 0)
		return SML_ERROR_CONFIG;
	if (keyed)
		files->job_key = &settings->job_key;
	return sml_tls_open(&settings->tls, SML_TLS_WORKER, files, &sml_tls_variables) < 0
		       ? SML_ERROR_CONFIG
		       : 0;
}

static char *copy(const char *text, const char *fallback)
{
	return strdup(text && *text ? text : fallback);
}

static int copy_strings(struct sml_settings *settings, const struct sml_config *config)
{
	const char *address = config->switch_address;
	bool embedded = !address || !*address || strcasecmp(address, "embedded") == 0;

	settings->every_rank = address && strcasecmp(address, "embedded") == 0;
	settings->job = copy(config->job, "default");
	settings->line = copy(config->job, "default");
	settings->master_address = copy(config->master_address, "127.0.0.1");
	if (embedded && config->world_size > SML_MAX_CHILDREN)
		return sml_error_set(
			SML_ERROR_CONFIG,
			"a job without a switch has at most %d ranks, not %d: start "
			"switches, the leaves with `switchml switch --parent HOST', and "
			"set SWITCHML_SWITCH to one of them for at most %d ranks each",
			SML_MAX_CHILDREN, config->world_size, SML_MAX_CHILDREN);
	/* At once, not when the other ranks have waited for a minute. */
	if (embedded && sml_launcher_hides_rank_0(config))
		return sml_error_set(
			SML_ERROR_CONFIG,
			"there are ranks on other hosts, and mpirun does not say where rank 0 is: "
			"set SWITCHML_MASTER_ADDR to its host (mpirun -x "
			"SWITCHML_MASTER_ADDR=HOST), or SWITCHML_SWITCH to a switch");
	if (!embedded)
		settings->switch_address = strdup(address);
	if (config->interface && *config->interface)
		settings->interface = strdup(config->interface);
	if (!settings->job || !settings->line || !settings->master_address ||
	    (!embedded && !settings->switch_address) ||
	    (config->interface && *config->interface && !settings->interface))
		return sml_error_set(-ENOMEM, "no memory for the configuration");
	return 0;
}

void sml_settings_set_ranks(struct sml_settings *settings, int rank, int world_size)
{
	__atomic_store_n(&settings->rank, (uint16_t)rank, __ATOMIC_RELAXED);
	__atomic_store_n(&settings->world_size, (uint16_t)world_size, __ATOMIC_RELAXED);
	settings->log.rank = rank;
	settings->speaks = rank == 0 || sml_launcher_is_first_here();
}

static void warn(void *log, const char *text)
{
	sml_log(log, SML_LOG_WARN, "%s", text);
}

/* The switch gives it a rank, whatever a launcher says. */
static int read_config(struct sml_config *own, const struct sml_config *given)
{
	int error = sml_config_read(own, given);

	if (error == 0 && own->join) {
		own->rank = 0;
		own->world_size = 1;
	}
	return error ? error : check(own);
}

static int check_join(const struct sml_settings *settings)
{
	if (!settings->asks || settings->switch_address)
		return 0;
	return sml_error_set(
		SML_ERROR_CONFIG,
		"SWITCHML_JOIN=1 needs a dedicated switch, which lets this process in: "
		"set SWITCHML_SWITCH");
}

/* What is copied, parsed or opened. Returns 0 or an error, and sets the error text. */
static int open_parts(struct sml_settings *settings, const struct sml_config *config)
{
	int error = copy_strings(settings, config);

	settings->asks = config->join;
	if (error == 0)
		error = check_join(settings);
	if (error == 0)
		error = set_ports(settings, config);
	if (error == 0 && config->faults)
		error = sml_faults_parse(&settings->faults, config->faults);
	if (error == 0)
		error = open_tls(settings, config);
	if (error == 0)
		error = sml_settings_copy_patterns(settings, config);
	return error ? error : sml_settings_set_files(settings, config->rank);
}

static void set_slots(struct sml_settings *settings, int wanted)
{
	int head = wanted / 4;

	/* No wish: the switch chooses both. */
	if (head < SML_HEAD_SLOTS_MIN && wanted > 0)
		head = SML_HEAD_SLOTS_MIN;
	if (head > SML_HEAD_SLOTS_MAX)
		head = SML_HEAD_SLOTS_MAX;
	settings->data_slots = (uint16_t)wanted;
	settings->head_slots = (uint16_t)head;
}

static void set_numbers(struct sml_settings *settings, const struct sml_config *config)
{
	settings->master_port = master_port(settings, config);
	settings->timeout_ms = settings->join_timeout_ms = (uint32_t)config->timeout_ms;
	settings->heartbeat_ms = (uint32_t)config->heartbeat_ms;
	settings->min_ranks = settings->request_min_ranks = (uint32_t)config->min_ranks;
	settings->max_ranks = settings->request_max_ranks = (uint32_t)config->max_ranks;
	settings->request_wait_ms = settings->heartbeat_ms;
	settings->wait_notice_ms = (uint32_t)config->wait_notice_ms;
	settings->wire = config->wire;
	settings->mtu = (uint32_t)config->mtu;
	settings->spin = config->spin != 0;
	settings->host_group = config->host_group != 0;
	settings->summary = config->summary != 0;
	settings->has_faults = config->faults && *config->faults;
	set_slots(settings, config->slots);
}

int sml_settings_init(struct sml_settings *settings, const struct sml_config *given)
{
	struct sml_config own, *config = &own;
	int error = read_config(&own, given);

	*settings = (struct sml_settings){0};
	if (error == 0)
		error = open_parts(settings, config);
	if (error)
		return error;
	set_numbers(settings, config);
	settings->log = (struct sml_log){
		.level = config->debug, .write = config->log, .self = config->log_self};
	sml_settings_set_ranks(settings, config->rank, config->world_size);
	if (sml_launcher_is_first_here())
		sml_variables_check(warn, &settings->log);
	settings->interrupt = config->interrupt;
	sml_settings_choose_threads(settings, config->threads);
	settings->local_stripes = choose_local_stripes();
	return 0;
}

void sml_settings_fini(struct sml_settings *settings)
{
	free(settings->follows.name);
	free(settings->begun.name);
	free(settings->switch_address);
	free(settings->job);
	free(settings->line);
	free(settings->master_address);
	free(settings->interface);
	free((char *)(uintptr_t)settings->tls_files.certificate);
	free((char *)(uintptr_t)settings->tls_files.key);
	free((char *)(uintptr_t)settings->tls_files.authority);
	sml_key_wipe(&settings->job_key);
	sml_tls_close(settings->tls);
	free(settings->flight_recorder);
	free(settings->trace);
	free(settings->metrics_file);
	free(settings->patterns.flight_recorder);
	free(settings->patterns.trace);
	free(settings->patterns.metrics_file);
}
