/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml doctor`: runs the checks and prints a line for each. */
#include <argp.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/word.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/peers.h"
#include "cmd/shared/command.h"
#include "lib/settings/settings.h"
#include "switchml.h"

static const char *const level_names[] = {"ok", "warning", "problem"};
_Static_assert(sizeof(level_names) / sizeof(level_names[0]) == DOCTOR_LEVELS, "each has a name");

static void print_text(const struct doctor *doctor)
{
	for (unsigned i = 0; i < doctor->n; i++) {
		const struct doctor_finding *finding = &doctor->findings[i];

		printf("%-8s %-15s %s\n", level_names[finding->level], finding->check,
		       finding->fact);
		if (finding->fix[0])
			printf("%-24s fix: %s\n", "", finding->fix);
	}
}

/* hosts: of --peers, taken over; NULL: none. */
static void print_json(const struct doctor *doctor, unsigned problems, json_t *hosts)
{
	json_t *findings = json_array();
	json_t *all;

	for (unsigned i = 0; i < doctor->n; i++) {
		const struct doctor_finding *finding = &doctor->findings[i];

		json_array_append_new(findings,
				      json_pack("{s:s, s:s, s:s, s:s}", "check", finding->check,
						"level", level_names[finding->level], "fact",
						finding->fact, "fix", finding->fix));
	}
	all = json_pack("{s:s, s:i, s:o}", "version", SML_VERSION_STRING, "problems", (int)problems,
			"findings", findings);
	if (hosts)
		json_object_set_new(all, "hosts", hosts);
	json_dumpf(all, stdout, JSON_INDENT(1));
	printf("\n");
	json_decref(all);
}

struct doctor_options {
	const char *switch_address;
	int json;
	int peers;
	unsigned wait_s;
};

enum { OPTION_WAIT = 256 };

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct doctor_options *options = state->input;
	long number;

	switch (key) {
	case 's':
		options->switch_address = text;
		return 0;
	case 'j':
		options->json = 1;
		return 0;
	case 'p':
		options->peers = 1;
		return 0;
	case ARGP_KEY_ARG:
		/* "--json -", as in all commands: standard output. */
		return options->json && strcmp(text, "-") == 0 ? 0 : ARGP_ERR_UNKNOWN;
	case OPTION_WAIT:
		if (!sml_parse_number(text, 1, 3600, &number))
			argp_error(state, "--wait must be 1 to 3600 seconds");
		options->wait_s = (unsigned)number;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option known_options[] = {
	{"switch", 's', "HOST:PORT,...", 0, "also check the path to these switches", 0},
	{"json", 'j', NULL, 0, "print JSON (--json -: the same)", 0},
	{"peers", 'p', NULL, 0,
	 "check every pair of hosts of a job, and print a table on rank 0; start it with the "
	 "job's launcher",
	 0},
	{"wait", OPTION_WAIT, "SECONDS", 0, "with --peers: wait this long for the other ranks (60)",
	 0},
	{0},
};

static void check_settings(struct doctor *doctor)
{
	struct sml_config config = SML_CONFIG_INIT;

	if (sml_config_init(&config) < 0 || sml_config_check_ranks(&config) < 0) {
		doctor_say(doctor, DOCTOR_PROBLEM, "environment", "%s", sml_error_text(NULL));
		doctor_fix(doctor, "correct or unset the variable");
		return;
	}
	if (doctor->switch_address == NULL)
		doctor->switch_address = config.switch_address;
	doctor_say(doctor, DOCTOR_OK, "environment", "rank %d of %d, job \"%s\", %s", config.rank,
		   config.world_size, config.job,
		   doctor->switch_address
			   ? doctor->switch_address
			   : "no switch (--switch or SWITCHML_SWITCH names one to check)");
	doctor->interface = config.interface;
	if (doctor->switch_address && strcasecmp(doctor->switch_address, "embedded") == 0)
		doctor->switch_address = NULL;
}

/* The exit status, or -1 if there are findings to print. */
static int check_peers(struct peers *peers, const struct doctor_options *options)
{
	static struct sml_config config = SML_CONFIG_INIT;

	if (sml_config_init(&config) < 0 || sml_config_check_ranks(&config) < 0) {
		fprintf(stderr, "switchml doctor: %s\n", sml_error_text(NULL));
		return (int)argp_err_exit_status;
	}
	if (options->switch_address)
		config.switch_address = options->switch_address;
	peers->config = &config;
	return peers_run(peers, options->wait_s);
}

int sml_command_doctor(int argc, char **argv)
{
	static const struct argp argp = {
		.options = known_options,
		.parser = parse_option,
		.doc = "Look for common problems, and say how to fix them.\v"
		       "The exit status is 1 if there is a problem, and 0 if there are only "
		       "warnings.",
	};
	struct doctor_options options = {.wait_s = 60};
	static struct doctor doctor;
	static struct peers peers = {.doctor = &doctor};
	unsigned problems;
	int status;

	sml_options_parse(&argp, argc, argv, &options);
	signal(SIGPIPE, SIG_IGN); /* TLS may write to a switch that hangs up */
	if (options.peers) {
		status = check_peers(&peers, &options);
		if (status >= 0)
			return status;
	} else {
		doctor.switch_address = options.switch_address;
		check_settings(&doctor);
		doctor_check_host(&doctor);
		doctor_check_switches(&doctor, doctor.switch_address);
	}
	problems = doctor_problems(&doctor);
	if (options.peers && !options.json)
		peers_print(&peers);
	if (options.json)
		print_json(&doctor, problems, options.peers ? peers_json(&peers) : NULL);
	else
		print_text(&doctor);
	return problems ? 1 : 0;
}
