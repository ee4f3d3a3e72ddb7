/* SPDX-License-Identifier: BSD-3-Clause */
/* Environments as set by launchers, by users, and by accident. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fuzz/properties.h"
#include "lib/settings/settings.h"
#include "lib/settings/unknown.h"
#include "lib/transport/interface.h"

#define MAX_VALUE 300

/* The parts of a value. */
static const char *const parts[] = {
	"0",	   "1",		 "3",	 "63",	  "64",		"9999999999999999999",
	".",	   "-",		 "+",	 " ",	  "int16",	"int32",
	"warn",	   "trace",	 "eth0", "^lo",	  ",",		":",
	"=",	   "[",		 "]",	 "drop=", "duplicate=", "seed=",
	"e",	   "0x",	 "%",	 "host",  "node[01",	"-04]",
	"1000000", "reorder=7,", "\n",	 "::1",	  "127.0.0.1",	"%r",
	"/tmp/",   "|",		 "%%"};

#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

static void draw_value(struct gen *gen, char *value)
{
	size_t length = 0;

	for (uint32_t n = gen_below(gen, 8); n > 0; n--) {
		if (gen_below(gen, 4)) {
			const char *part = parts[gen_below(gen, N_OF(parts))];

			memcpy(value + length, part, strlen(part));
			length += strlen(part);
		} else {
			value[length++] = (char)gen_range(gen, 1, 255);
		}
	}
	/* Some values are long. */
	if (length && gen_below(gen, 16) == 15)
		for (; length < MAX_VALUE; length++)
			value[length] = value[length - 1];
	value[length] = '\0';
}

/* Besides our own variables: one that is refused, and what launchers set. */
static const char *const others[] = {
	"SWITCHML_JOB_KEY",
	"RANK",
	"WORLD_SIZE",
	"LOCAL_WORLD_SIZE",
	"MASTER_ADDR",
	"MASTER_PORT",
	"TORCHELASTIC_RUN_ID",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_SIZE",
	"MPI_LOCALNRANKS",
	"PMI_RANK",
	"PMI_SIZE",
	"SLURM_PROCID",
	"SLURM_NTASKS",
	"SLURM_NODELIST",
	"SLURM_LAUNCH_NODE_IPADDR",
	"SLURM_JOB_ID",
	"SLURM_NTASKS_PER_NODE",
	"SLURM_STEP_ID",
	"PMIX_NAMESPACE",
	"OMPI_MCA_ess_base_jobid",
	"OMPI_MCA_orte_precondition_transports",
};

static const char *draw_name(struct gen *gen)
{
	uint32_t n_ours = 0, i;

	while (sml_variable_name(n_ours))
		n_ours++;
	i = gen_below(gen, N_OF(others) + n_ours);
	return i < N_OF(others) ? others[i] : sml_variable_name(i - N_OF(others));
}

static void draw_environment(struct gen *gen)
{
	char value[MAX_VALUE + 1];

	clearenv();
	for (uint32_t n = gen_below(gen, 6); n > 0; n--) {
		draw_value(gen, value);
		setenv(draw_name(gen), value, 1);
	}
}

static const char *check_config(const struct sml_config *config)
{
	PROPERTY_CHECK(config->size == sizeof(*config), "the size is not the configuration's");
	/* A launcher may have more ranks than a job can have: the settings refuse that number, and
	 * an environment that has one of the two only. */
	PROPERTY_CHECK(config->rank >= -1 && config->world_size >= 0 &&
			       (config->rank >= 0 || config->world_size >= 1),
		       "rank or world size is out of bounds");
	PROPERTY_CHECK(config->master_port >= 0 && config->master_port <= 65535,
		       "the port is out of bounds");
	PROPERTY_CHECK(config->timeout_ms > 0 && config->heartbeat_ms >= 100 &&
			       config->heartbeat_ms <= 60000,
		       "a time is out of bounds");
	PROPERTY_CHECK(config->wire == SML_WIRE_DEFAULT || config->wire == SML_WIRE_INT32 ||
			       config->wire == SML_WIRE_INT16,
		       "the wire is none of those that there are");
	PROPERTY_CHECK(config->job != NULL && *config->job && config->master_address != NULL,
		       "a text is missing");
	return NULL;
}

static const char *check_settings(const struct sml_settings *settings)
{
	PROPERTY_CHECK(settings->rank < settings->world_size &&
			       settings->world_size <= SML_MAX_WORLD_SIZE,
		       "the rank is not in the world");
	PROPERTY_CHECK(settings->head_slots + settings->data_slots <= SML_MAX_SLOTS &&
			       (settings->head_slots > 0) == (settings->data_slots > 0),
		       "more slots than there can be, or slots for one stream alone");
	PROPERTY_CHECK(settings->threads >= 1 && settings->threads <= SML_MAX_SHARDS,
		       "more threads than there can be");
	PROPERTY_CHECK(settings->faults.drop <= 1000000 && settings->faults.duplicate <= 1000000 &&
			       settings->faults.reorder <= 1000000,
		       "more faults than packets");
	return NULL;
}

const char *property_config(struct gen *gen, bool tiny)
{
	struct sml_config config = SML_CONFIG_INIT;
	struct sml_settings settings;
	const char *wrong;
	int error;

	(void)tiny;
	draw_environment(gen);
	error = sml_config_init(&config);
	if (error) {
		PROPERTY_CHECK(error == SML_ERROR_CONFIG && *sml_error_last(),
			       "it was refused without a word");
		return NULL;
	}
	wrong = check_config(&config);
	if (config.interface)
		(void)sml_interface_matches(config.interface, "eth0");
	error = sml_settings_init(&settings, &config);
	if (wrong == NULL && error == 0)
		wrong = check_settings(&settings);
	if (wrong == NULL && error == 0 && (config.rank < 0 || config.world_size < 1))
		wrong = "half of a rank and a world size was accepted";
	sml_settings_fini(&settings);
	PROPERTY_CHECK(error == 0 || (error == SML_ERROR_CONFIG && *sml_error_last()),
		       "it was refused without a word");
	return wrong;
}
