/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * struct sml_config from the environment. Three tables: our own variables, the launchers, and the
 * names of some values.
 *
 * Rank and world size come from SWITCHML_RANK and SWITCHML_WORLD_SIZE, or else from the first
 * launcher that has set both of its variables. They never come from two launchers: a program that
 * Open MPI starts inside a Slurm allocation sees both launchers' variables.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/number.h"
#include "base/sized.h"
#include "lib/settings/run_name.h"
#include "lib/settings/settings.h"
#include "lib/settings/unknown.h"
#include "net/address.h"

struct word {
	const char *word;
	int value;
};

static const struct word wires[] = {{"int32", SML_WIRE_INT32},
				    {"int16", SML_WIRE_INT16},
				    {"int8", SML_WIRE_INT8},
				    {"exact", SML_WIRE_EXACT},
				    {0}};
/* NCCL's words, too: its users type them. */
static const struct word levels[] = {{"error", SML_LOG_ERROR},	{"warn", SML_LOG_WARN},
				     {"warning", SML_LOG_WARN}, {"info", SML_LOG_INFO},
				     {"debug", SML_LOG_INFO},	{"trace", SML_LOG_TRACE},
				     {"version", SML_LOG_WARN}, {0}};
static const struct word switches[] = {{"0", 0},    {"1", 1},	{"no", 0}, {"yes", 1}, {"false", 0},
				       {"true", 1}, {"off", 0}, {"on", 1}, {0}};

enum kind { TEXT, NUMBER, SECONDS_AS_MS, WORD, PORTS };

/* One variable, and the member that it sets. */
struct variable {
	const char *name;
	size_t offset;
	enum kind kind;
	long minimum, maximum;
	const struct word *words;
	const char *allowed;
};

#define MEMBER(member) offsetof(struct sml_config, member)

static const struct variable variables[] = {
	{"SWITCHML_SWITCH", MEMBER(switch_address), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_JOB", MEMBER(job), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_RANK", MEMBER(rank), NUMBER, 0, SML_MAX_WORLD_SIZE - 1, NULL,
	 "0 to 4095, below the world size"},
	{"SWITCHML_WORLD_SIZE", MEMBER(world_size), NUMBER, 1, SML_MAX_WORLD_SIZE, NULL,
	 "1 to 4096"},
	{"SWITCHML_MASTER_ADDR", MEMBER(master_address), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_MASTER_PORT", MEMBER(master_port), NUMBER, 1, 65535, NULL, "1 to 65535"},
	{"SWITCHML_TIMEOUT", MEMBER(timeout_ms), SECONDS_AS_MS, 1, 1000000000, NULL,
	 "seconds, 0.001 to 1000000"},
	{"SWITCHML_WAIT_NOTICE", MEMBER(wait_notice_ms), SECONDS_AS_MS, 0, 1000000000, NULL,
	 "seconds, 0.001 to 1000000, or 0 for no notices"},
	{"SWITCHML_HEARTBEAT", MEMBER(heartbeat_ms), SECONDS_AS_MS, 100, 60000, NULL,
	 "seconds, 0.1 to 60"},
	{"SWITCHML_WIRE", MEMBER(wire), WORD, 0, 0, wires, "int32, int16, int8 or exact"},
	{"SWITCHML_SLOTS", MEMBER(slots), NUMBER, 1, SML_DATA_SLOTS_MAX, NULL, "1 to 4032"},
	{"SWITCHML_THREADS", MEMBER(threads), NUMBER, 1, SML_MAX_SHARDS, NULL, "1 to 16"},
	{"SWITCHML_MTU", MEMBER(mtu), NUMBER, 256, 65535, NULL, "bytes, 256 to 65535"},
	{"SWITCHML_SOCKET_IFNAME", MEMBER(interface), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_DEBUG", MEMBER(debug), WORD, 0, 0, levels, "error, warn, info or trace"},
	{"SWITCHML_SPIN", MEMBER(spin), WORD, 0, 0, switches, "0 or 1, no or yes"},
	{"SWITCHML_HOST_GROUP", MEMBER(host_group), WORD, 0, 0, switches, "0 or 1, no or yes"},
	{"SWITCHML_SUMMARY", MEMBER(summary), WORD, 0, 0, switches, "0 or 1, no or yes"},
	{"SWITCHML_JOIN", MEMBER(join), WORD, 0, 0, switches, "0 or 1, no or yes"},
	{"SWITCHML_MIN_RANKS", MEMBER(min_ranks), NUMBER, 1, SML_MAX_WORLD_SIZE, NULL, "1 to 4096"},
	{"SWITCHML_MAX_RANKS", MEMBER(max_ranks), NUMBER, 1, SML_MAX_WORLD_SIZE, NULL, "1 to 4096"},
	{"SWITCHML_FLIGHT_RECORDER", MEMBER(flight_recorder), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_TRACE", MEMBER(trace), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_METRICS_FILE", MEMBER(metrics_file), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_FAULTS", MEMBER(faults), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_TLS_CERTIFICATE", MEMBER(tls_certificate), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_TLS_KEY", MEMBER(tls_key), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_TLS_AUTHORITY", MEMBER(tls_authority), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_JOB_KEY", MEMBER(job_key), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_JOB_KEY_FILE", MEMBER(job_key_file), TEXT, 0, 0, NULL, NULL},
	{"SWITCHML_PORTS", MEMBER(ports), PORTS, 0, 0, NULL, SML_PORTS_ALLOWED},
};

/* Those that only a binding or a command reads. */
static const char *const others[] = {
	"SWITCHML_LIBRARY",
	"SWITCHML_LIBBPF_LOG",
	"SWITCHML_MPI_THRESHOLD",
	"SWITCHML_MPI_SUMMARY",
};

/* Launchers by priority: torchrun runs under srun, and mpirun under Slurm. */
static const struct launcher {
	const char *rank, *world_size, *local_size, *local_rank;
} launchers[] = {
	[SML_LAUNCHER_TORCHRUN] = {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
	[SML_LAUNCHER_OPEN_MPI] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
				   "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
	[SML_LAUNCHER_MPICH] = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
	[SML_LAUNCHER_SLURM] = {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE",
				"SLURM_LOCALID"},
};
_Static_assert(sizeof(launchers) / sizeof(launchers[0]) == SML_LAUNCHER_NONE, "each has its names");

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

const char *sml_variable_name(size_t i)
{
	if (i < N_OF(variables))
		return variables[i].name;
	i -= N_OF(variables);
	return i < N_OF(others) ? others[i] : NULL;
}

static int refuse(const char *name, const char *value, const char *allowed)
{
	return sml_error_set(SML_ERROR_CONFIG, "%s=\"%s\" is not allowed: it must be %s", name,
			     value, allowed);
}

/* "2", "0.5" or "1.25" seconds as milliseconds. Not strtod(): it obeys the locale. */
static bool parse_seconds(const char *text, long minimum_ms, long maximum_ms, long *ms)
{
	char whole[16] = "", part[4] = "000";
	const char *point = strchr(text, '.');
	size_t length = point ? (size_t)(point - text) : strlen(text);
	size_t decimals = point ? strlen(point + 1) : 0;
	long seconds, thousandths;

	if (length == 0 || length >= sizeof(whole) || decimals > 3 || (point && decimals == 0))
		return false;
	memcpy(whole, text, length);
	if (point)
		memcpy(part, point + 1, decimals);
	if (!sml_parse_number(whole, 0, 1000000000, &seconds) ||
	    !sml_parse_number(part, 0, 999, &thousandths))
		return false;
	*ms = 1000 * seconds + thousandths;
	return *ms >= minimum_ms && *ms <= maximum_ms;
}

static bool parse_word(const struct word *words, const char *text, long *value)
{
	for (; words->word; words++) {
		if (strcasecmp(words->word, text) == 0) {
			*value = words->value;
			return true;
		}
	}
	return false;
}

static int set_variable(struct sml_config *config, const struct variable *variable)
{
	const char *text = sml_variable_get(variable->name);
	char *member = (char *)config + variable->offset;
	struct sml_port_range ports;
	long number = 0;
	bool good = true;

	if (text == NULL)
		return 0;
	switch (variable->kind) {
	case PORTS:
		if (!sml_port_range_parse(text, &ports))
			return refuse(variable->name, text, variable->allowed);
		*(const char **)member = text;
		return 0;
	case TEXT:
		*(const char **)member = text;
		return 0;
	case NUMBER:
		good = sml_parse_number(text, variable->minimum, variable->maximum, &number);
		break;
	case SECONDS_AS_MS:
		good = parse_seconds(text, variable->minimum, variable->maximum, &number);
		break;
	case WORD:
		good = parse_word(variable->words, text, &number);
		break;
	}
	if (!good)
		return refuse(variable->name, text, variable->allowed);
	/* Enumerations have the size of an int here. */
	_Static_assert(sizeof(enum sml_wire) == sizeof(int), "wire is set as an int");
	*(int *)member = (int)number;
	return 0;
}

/* ---- launchers ---- */

static const struct launcher *find_launcher(void)
{
	for (size_t i = 0; i < N_OF(launchers); i++)
		if (sml_variable_get(launchers[i].rank) &&
		    sml_variable_get(launchers[i].world_size))
			return &launchers[i];
	return NULL;
}

static enum sml_launcher_kind launcher_kind(void)
{
	const struct launcher *launcher = find_launcher();

	return launcher ? (enum sml_launcher_kind)(launcher - launchers) : SML_LAUNCHER_NONE;
}

static int set_number(const char *name, long minimum, long maximum, const char *allowed, int *out)
{
	long number;

	if (!sml_parse_number(sml_variable_get(name), minimum, maximum, &number))
		return refuse(name, sml_variable_get(name), allowed);
	*out = (int)number;
	return 0;
}

/* ---- by hand: one of the two may have been forgotten ---- */

static const char *first_set(const char *a, const char *b)
{
	return sml_variable_get(a) ? a : sml_variable_get(b) ? b : NULL;
}

static const char *rank_variable(void)
{
	return first_set("SWITCHML_RANK", "RANK");
}

static const char *size_variable(void)
{
	return first_set("SWITCHML_WORLD_SIZE", "WORLD_SIZE");
}

/* There is no launcher's pair. Those with our prefix are set with all others. */
static int set_by_hand(struct sml_config *config)
{
	int error = 0;

	if (!sml_variable_get("SWITCHML_WORLD_SIZE") && sml_variable_get("WORLD_SIZE"))
		error = set_number("WORLD_SIZE", 1, INT_MAX, "a number of ranks",
				   &config->world_size);
	if (error == 0 && !sml_variable_get("SWITCHML_RANK") && sml_variable_get("RANK"))
		error = set_number("RANK", 0, INT_MAX, "a number below the world size",
				   &config->rank);
	return error;
}

/*
 * A job of one rank would be the wrong guess, and the other ranks would wait for this one. The
 * program may still say what the environment does not.
 */
static void leave_open(struct sml_config *config)
{
	if (find_launcher())
		return;
	if (rank_variable() && !size_variable())
		config->world_size = 0;
	if (size_variable() && !rank_variable() && config->world_size > 1)
		config->rank = -1;
}

int sml_config_check_ranks(const struct sml_config *config)
{
	const char *rank = rank_variable(), *size = size_variable();

	if (config->world_size == 0 && rank && !size && !find_launcher())
		return sml_error_set(SML_ERROR_CONFIG,
				     "%s=%s is set, but %s is not: set both on every rank, or "
				     "neither",
				     rank, sml_variable_get(rank),
				     *rank == 'S' ? "SWITCHML_WORLD_SIZE" : "WORLD_SIZE");
	if (config->rank == -1 && size && !rank && !find_launcher())
		return sml_error_set(SML_ERROR_CONFIG,
				     "%s=%s is set, but %s is not: set both on every rank, or "
				     "neither",
				     size, sml_variable_get(size),
				     *size == 'S' ? "SWITCHML_RANK" : "RANK");
	return 0;
}

static int set_ranks(struct sml_config *config)
{
	const struct launcher *launcher = find_launcher();
	int error = 0;

	/* A value that is overridden need not be valid. */
	if (sml_variable_get("SWITCHML_RANK") && sml_variable_get("SWITCHML_WORLD_SIZE"))
		return 0;
	if (launcher == NULL)
		return set_by_hand(config);
	/*
	 * This may be more than a job can have: sml_open() reports that, unless the program
	 * overrides it.
	 */
	if (!sml_variable_get("SWITCHML_WORLD_SIZE"))
		error = set_number(launcher->world_size, 1, INT_MAX, "a number of ranks",
				   &config->world_size);
	if (error == 0 && !sml_variable_get("SWITCHML_RANK"))
		error = set_number(launcher->rank, 0, INT_MAX, "a number below the world size",
				   &config->rank);
	return error;
}

int sml_launcher_local_size(void)
{
	const struct launcher *launcher = find_launcher();
	long number;

	if (launcher == NULL || !sml_variable_get(launcher->local_size) ||
	    !sml_parse_number(sml_variable_get(launcher->local_size), 1, SML_MAX_WORLD_SIZE,
			      &number))
		return 0;
	return (int)number;
}

bool sml_launcher_is_first_here(void)
{
	const struct launcher *launcher = find_launcher();
	const char *number = launcher ? sml_variable_get(launcher->local_rank) : NULL;

	return !number || strcmp(number, "0") == 0;
}

/* By its address, it is known that neither a launcher nor a person has said where rank 0 is. */
static const char loopback[] = "127.0.0.1";

bool sml_launcher_hides_rank_0(const struct sml_config *config)
{
	const enum sml_launcher_kind kind = launcher_kind();
	const int here = sml_launcher_local_size();
	long all;

	if ((kind != SML_LAUNCHER_OPEN_MPI && kind != SML_LAUNCHER_MPICH) ||
	    config->master_address != loopback || here == 0 || here >= config->world_size)
		return false;
	/* The job may have ranks that another call of the launcher has started, on this host. */
	return sml_parse_number(sml_variable_get(launchers[kind].world_size), here + 1, INT_MAX,
				&all);
}

/* The first of "node[01-04,07],gpu3": "node01". Rank 0 runs there. */
static const char *first_host(const char *list)
{
	static _Thread_local char host[256];
	size_t prefix = strcspn(list, "[,");
	size_t number = 0, length;
	const char *rest = list + prefix;

	if (*rest == '[') {
		number = strspn(rest + 1, "0123456789");
		rest += strcspn(rest, "]");
		rest += *rest == ']';
	}
	length = strcspn(rest, ",");
	if (prefix + number + length >= sizeof(host))
		return NULL;
	snprintf(host, sizeof(host), "%.*s%.*s%.*s", (int)prefix, list, (int)number,
		 list + prefix + 1, (int)(list[prefix] == '[' ? length : 0), rest);
	return host;
}

static void set_master_address(struct sml_config *config)
{
	if (sml_variable_get("MASTER_ADDR"))
		config->master_address = sml_variable_get("MASTER_ADDR");
	else if (launcher_kind() != SML_LAUNCHER_SLURM)
		return;
	else if (sml_variable_get("SLURM_NODELIST") &&
		 first_host(sml_variable_get("SLURM_NODELIST")))
		config->master_address = first_host(sml_variable_get("SLURM_NODELIST"));
	else if (sml_variable_get("SLURM_LAUNCH_NODE_IPADDR"))
		config->master_address = sml_variable_get("SLURM_LAUNCH_NODE_IPADDR");
}

/* torchrun's own store listens on MASTER_PORT, so we use the next port. */
static int set_master_port(struct sml_config *config)
{
	int error, port = 0;

	if (!sml_variable_get("MASTER_PORT") || sml_variable_get("SWITCHML_MASTER_PORT"))
		return 0;
	error = set_number("MASTER_PORT", 1, 65534,
			   "1 to 65534 (the embedded switch also uses the next port)", &port);
	if (error == 0)
		config->master_port = port + 1;
	return error;
}

/*
 * Rank 0's control port is one of SWITCHML_PORTS: the launcher's, which may differ from run to run,
 * or else the first one. All ranks derive the same.
 */
static void fit_master_port(struct sml_config *config)
{
	struct sml_port_range ports;

	if (!config->ports || sml_variable_get("SWITCHML_MASTER_PORT") ||
	    !sml_port_range_parse(config->ports, &ports))
		return;
	if (!sml_port_range_has(&ports, config->master_port))
		config->master_port = ports.first;
}

static const struct sml_sized kind = {sizeof(struct sml_config), "struct sml_config",
				      "begin with SML_CONFIG_INIT", SML_ERROR_CONFIG};

/* All that this library knows. */
static int fill(struct sml_config *config)
{
	int error;

	*config = (struct sml_config){
		.size = sizeof(*config),
		.world_size = 1,
		.master_address = loopback,
		.master_port = SML_DEFAULT_PORT,
		.timeout_ms = SML_DEFAULT_TIMEOUT_MS,
		.heartbeat_ms = SML_DEFAULT_HEARTBEAT_MS,
		.wait_notice_ms = SML_DEFAULT_WAIT_NOTICE_MS,
		.wire = SML_WIRE_DEFAULT,
		.debug = SML_LOG_WARN,
		.host_group = -1,
		.summary = 1,
	};
	set_master_address(config);
	config->job = sml_run_name(launcher_kind());
	error = set_master_port(config);
	if (error == 0)
		error = set_ranks(config);
	for (size_t i = 0; error == 0 && i < N_OF(variables); i++)
		error = set_variable(config, &variables[i]);
	if (error == 0) {
		leave_open(config);
		fit_master_port(config);
	}
	return error;
}

int sml_config_init(struct sml_config *config)
{
	struct sml_config own;
	int error = fill(&own), wrong = sml_sized_write(&kind, config, &own);

	return wrong ? wrong : error;
}

int sml_config_read(struct sml_config *own, const struct sml_config *given)
{
	int error = 0;

	*own = (struct sml_config)SML_CONFIG_INIT;
	/* An older program's is shorter: the rest is as for a program that changes nothing. */
	if (given != NULL && given->size < sizeof(*own))
		error = fill(own);
	return error ? error : sml_sized_read(&kind, own, given);
}
