/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * struct sml_config, from the environment or from a program. Three tables: the settings, the
 * launchers, and the names of some values.
 *
 * Rank and world size come from SWITCHML_RANK and SWITCHML_WORLD_SIZE, or else from the first
 * launcher that has set both of its variables. They never come from two launchers: a program that
 * Open MPI starts inside a Slurm allocation sees both launchers' variables.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "base/word.h"
#include "lib/settings/internal.h"
#include "lib/settings/settings.h"
#include "lib/settings/unknown.h"
#include "net/address.h"

static const struct sml_word wires[] = {{"int32", SML_WIRE_INT32},
					{"int16", SML_WIRE_INT16},
					{"int8", SML_WIRE_INT8},
					{"exact", SML_WIRE_EXACT},
					{0}};

/* The first three are texts. A secret is not copied. */
enum kind { TEXT, PORTS, SECRET, NUMBER, SECONDS_AS_MS, WORD };

/* One setting: the variable, and the member that it sets. */
struct variable {
	const char *name, *member;
	size_t offset;
	enum kind kind;
	const char *allowed;
	/* The default, and bounds. In the variable, 0 may not stand for "any", as in the member. */
	int value, least, variable_least, most;
	const struct sml_word *words;
};

#define MEMBER(of) .member = #of, .offset = offsetof(struct sml_config, of)

static const struct variable variables[] = {
	{"SWITCHML_SWITCH", MEMBER(switch_address), TEXT},
	{"SWITCHML_JOB", MEMBER(job), TEXT},
	{"SWITCHML_WORLD_SIZE", MEMBER(world_size), NUMBER, "1 to 4096", 1, 1, 1,
	 SML_MAX_WORLD_SIZE},
	{"SWITCHML_RANK", MEMBER(rank), NUMBER, "0 to 4095, below the world size", 0, 0, 0,
	 SML_MAX_WORLD_SIZE - 1},
	{"SWITCHML_MASTER_ADDR", MEMBER(master_address), TEXT},
	{"SWITCHML_MASTER_PORT", MEMBER(master_port), NUMBER, "1 to 65535", SML_DEFAULT_PORT, 0, 1,
	 65535},
	{"SWITCHML_TIMEOUT", MEMBER(timeout_ms), SECONDS_AS_MS, "seconds, 0.001 to 1000000",
	 1800000, 1, 1, INT_MAX},
	{"SWITCHML_HEARTBEAT", MEMBER(heartbeat_ms), SECONDS_AS_MS, "seconds, 0.1 to 60", 5000, 100,
	 100, 60000},
	{"SWITCHML_WAIT_NOTICE", MEMBER(wait_notice_ms), SECONDS_AS_MS,
	 "seconds, 0.001 to 1000000, or 0 for no notices", 5000, 0, 0, INT_MAX},
	{"SWITCHML_WIRE", MEMBER(wire), WORD, "int32, int16, int8 or exact", SML_WIRE_DEFAULT,
	 SML_WIRE_DEFAULT, 0, SML_WIRE_GRADIENT, wires},
	{"SWITCHML_SLOTS", MEMBER(slots), NUMBER, "1 to 4032", 0, 0, 1, SML_DATA_SLOTS_MAX},
	{"SWITCHML_THREADS", MEMBER(threads), NUMBER, "1 to 16", 0, 0, 1, SML_MAX_SHARDS},
	{"SWITCHML_MTU", MEMBER(mtu), NUMBER, "bytes, 256 to 65535", 0, 0, 256, 65535},
	{"SWITCHML_SOCKET_IFNAME", MEMBER(interface), TEXT},
	{"SWITCHML_DEBUG", MEMBER(debug), WORD, SML_LEVELS_ALLOWED, SML_LOG_WARN, SML_LOG_ERROR, 0,
	 SML_LOG_TRACE, sml_level_words},
	{"SWITCHML_SPIN", MEMBER(spin), WORD, SML_SWITCH_ALLOWED, 0, 0, 0, 1, sml_switch_words},
	{"SWITCHML_SHARED_MEMORY", MEMBER(shared_memory), WORD, SML_SWITCH_ALLOWED, -1, -1, 0, 1,
	 sml_switch_words},
	{"SWITCHML_SUMMARY", MEMBER(summary), WORD, SML_SWITCH_ALLOWED ", or all", 1, 0, 0, 2,
	 sml_switch_words},
	{"SWITCHML_JOIN", MEMBER(join), WORD, SML_SWITCH_ALLOWED, 0, 0, 0, 1, sml_switch_words},
	{"SWITCHML_RECORD", MEMBER(record), TEXT},
	{"SWITCHML_FAULTS", MEMBER(faults), TEXT},
	{"SWITCHML_TLS_CERTIFICATE", MEMBER(tls_certificate), TEXT},
	{"SWITCHML_TLS_KEY", MEMBER(tls_key), TEXT},
	{"SWITCHML_TLS_AUTHORITY", MEMBER(tls_authority), TEXT},
	{"SWITCHML_JOB_KEY_FILE", MEMBER(job_key_file), TEXT},
	{"SWITCHML_PORTS", MEMBER(ports), PORTS, SML_PORTS_ALLOWED},
	/* A program's choice, without a variable. They are last: sml_variable_name() ends there. */
	{NULL, MEMBER(job_key), SECRET},
	{NULL, MEMBER(min_ranks), NUMBER, .most = SML_MAX_WORLD_SIZE},
	{NULL, MEMBER(max_ranks), NUMBER, .most = SML_MAX_WORLD_SIZE},
	{NULL, MEMBER(master_listens), NUMBER, .most = 1},
};

/* Those that only a binding or a command reads. */
static const char *const others[] = {
	"SWITCHML_LIBRARY",
	"SWITCHML_MPI_THRESHOLD",
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
	if (i < N_OF(others))
		return others[i];
	i -= N_OF(others);
	return i < N_OF(variables) ? variables[i].name : NULL;
}

static int refuse(const char *name, const char *value, const char *allowed)
{
	return sml_error_set(SML_ERROR_CONFIG, "%s=\"%s\" is not allowed: it must be %s", name,
			     value, allowed);
}

/*
 * "2", "0.5" or "1.25" seconds, of at most a million, as milliseconds. Not strtod(): it obeys the
 * locale.
 */
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
	return *ms >= minimum_ms && *ms <= maximum_ms && *ms <= 1000000000;
}

static bool is_text(const struct variable *variable)
{
	return variable->kind <= SECRET;
}

static const char **text_of(struct sml_config *config, const struct variable *variable)
{
	return (const char **)((char *)config + variable->offset);
}

/* Enumerations have the size of an int here. */
_Static_assert(sizeof(enum sml_wire) == sizeof(int), "wire is set as an int");

static int *number_of(struct sml_config *config, const struct variable *variable)
{
	return (int *)((char *)config + variable->offset);
}

static int set_variable(struct sml_config *config, const struct variable *variable)
{
	const char *text = variable->name ? sml_variable_get(variable->name) : NULL;
	struct sml_port_range ports;
	long number = 0;
	int word = 0;
	bool good = true;

	if (text == NULL)
		return 0;
	switch (variable->kind) {
	case PORTS:
		good = sml_port_range_parse(text, &ports);
		break;
	case TEXT:
	case SECRET:
		break;
	case NUMBER:
		good = sml_parse_number(text, variable->variable_least, variable->most, &number);
		break;
	case SECONDS_AS_MS:
		good = parse_seconds(text, variable->variable_least, variable->most, &number);
		break;
	case WORD:
		good = sml_parse_word(variable->words, variable->most, text, &word);
		number = word;
		break;
	}
	if (!good)
		return refuse(variable->name, text, variable->allowed);
	if (is_text(variable))
		*text_of(config, variable) = text;
	else
		*number_of(config, variable) = (int)number;
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
	const char *rank = rank_variable(), *size = size_variable(), *set = rank ? rank : size;

	if (find_launcher() || !rank == !size || (rank ? config->world_size : config->rank + 1))
		return 0;
	return sml_error_set(SML_ERROR_CONFIG,
			     "%s=%s is set, but %s%s is not: set both on every rank, or neither",
			     set, sml_variable_get(set), *set == 'S' ? "SWITCHML_" : "",
			     rank ? "WORLD_SIZE" : "RANK");
}

/* Those with our prefix are set with all others; a value that they override need not be valid. */
static int set_ranks(struct sml_config *config)
{
	const struct launcher *launcher = find_launcher();
	int error = 0;

	/* By hand, one of the two may have been forgotten. */
	if (launcher == NULL)
		launcher = &launchers[SML_LAUNCHER_TORCHRUN];
	/*
	 * This may be more than a job can have: sml_open() reports that, unless the program
	 * overrides it.
	 */
	if (!sml_variable_get("SWITCHML_WORLD_SIZE") && sml_variable_get(launcher->world_size))
		error = set_number(launcher->world_size, 1, INT_MAX, "a number of ranks",
				   &config->world_size);
	if (error == 0 && !sml_variable_get("SWITCHML_RANK") && sml_variable_get(launcher->rank))
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

	*config = (struct sml_config){.size = sizeof(*config), .master_address = loopback};
	for (size_t i = 0; i < N_OF(variables); i++)
		if (!is_text(&variables[i]))
			*number_of(config, &variables[i]) = variables[i].value;
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

int sml_config_check(const struct sml_config *config)
{
	int error = sml_config_check_ranks(config);

	for (size_t i = 0; error == 0 && i < N_OF(variables); i++) {
		const struct variable *variable = &variables[i];
		int value;

		if (is_text(variable))
			continue;
		memcpy(&value, (const char *)config + variable->offset, sizeof(value));
		if (value < variable->least || value > variable->most)
			error = sml_error_set(SML_ERROR_CONFIG, "%s is %d: it must be %d to %d",
					      variable->member, value, variable->least,
					      variable->most);
	}
	return error;
}

int sml_config_own(struct sml_config *config)
{
	bool good = true;

	for (size_t i = 0; i < N_OF(variables); i++) {
		const char **text = text_of(config, &variables[i]);

		if (!is_text(&variables[i]) || *text == NULL)
			continue;
		if (**text == '\0')
			*text = NULL;
		else if (variables[i].kind != SECRET)
			good &= (*text = strdup(*text)) != NULL;
	}
	return good ? 0 : sml_error_set(-ENOMEM, "no memory for the configuration");
}

void sml_config_free(struct sml_config *config)
{
	for (size_t i = 0; i < N_OF(variables); i++)
		if (is_text(&variables[i]) && variables[i].kind != SECRET)
			free((char *)(uintptr_t)*text_of(config, &variables[i]));
}
