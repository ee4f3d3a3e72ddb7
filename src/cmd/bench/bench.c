/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml bench`: decides which ranks this process starts, or which rank it
 * is.
 */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench/bench.h"
#include "cmd/shared/command.h"

/* ---- signals that end it early, and well ---- */

static volatile sig_atomic_t must_end;
static volatile pid_t to_be_told; /* 0: nobody else */

static void request_end(int signal_number)
{
	(void)signal_number;
	must_end = 1;
	if (to_be_told > 0)
		kill(to_be_told, SIGTERM);
}

/* Unless the signal is ignored. A second Ctrl-C ends the process as usual. */
static void end_by_signal(int number, int flags)
{
	struct sigaction action = {.sa_handler = request_end, .sa_flags = flags}, before;

	sigaction(number, NULL, &before);
	if (before.sa_handler != SIG_IGN)
		sigaction(number, &action, NULL);
}

void bench_end_by_signals(int flags)
{
	end_by_signal(SIGINT, flags | (int)SA_RESETHAND);
	end_by_signal(SIGTERM, flags);
}

void bench_pass_on_the_end(pid_t rank_0)
{
	to_be_told = rank_0;
	/* Without SA_RESTART: a wait that restarts may keep the handler from running. */
	bench_end_by_signals(0);
	if (must_end)
		kill(rank_0, SIGTERM);
}

void bench_keep_the_end(void)
{
	to_be_told = 0;
}

bool bench_must_end(void)
{
	return must_end;
}

/* ---- what this process is ---- */

/*
 * Is this process one rank of a job? With a world size but no rank too: the library then says which
 * variable is missing.
 */
static bool is_a_rank(void)
{
	static const char *const names[] = {"SWITCHML_RANK", "RANK",	     "OMPI_COMM_WORLD_RANK",
					    "PMI_RANK",	     "SLURM_PROCID", "SWITCHML_WORLD_SIZE",
					    "WORLD_SIZE"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (getenv(names[i]))
			return true;
	}
	return false;
}

int bench_prepare(struct bench_options *options, struct sml_config *config)
{
	static char faults[128];

	*config = (struct sml_config)SML_CONFIG_INIT;
	if (sml_config_init(config) < 0) {
		fprintf(stderr, "switchml bench: %s\n", sml_error_text(NULL));
		return (int)argp_err_exit_status;
	}
	/* The report has it all. */
	if (!getenv("SWITCHML_SUMMARY"))
		config->summary = 0;
	/* A call asks for its wire, or for the default one: its bound is for that. */
	if (options->wire == SML_WIRE_DEFAULT)
		options->wire = config->wire;
	config->wire = SML_WIRE_DEFAULT;
	if (options->switch_address)
		config->switch_address = options->switch_address;
	else if (config->switch_address && *config->switch_address)
		options->switch_address = config->switch_address;
	if (options->job)
		config->job = options->job;
	if (options->drop || options->duplicate || options->reorder) {
		snprintf(faults, sizeof(faults), "drop=%u,duplicate=%u,reorder=%u,seed=%u",
			 options->drop, options->duplicate, options->reorder, options->seed);
		config->faults = faults;
	}
	return 0;
}

int sml_command_bench(int argc, char **argv)
{
	struct bench_options options = bench_defaults();
	struct sml_config config;
	int status;

	sml_options_parse(&bench_argp, argc, argv, &options);
	status = bench_prepare(&options, &config);
	if (status)
		return status;
	if (options.seconds)
		bench_end_by_signals(SA_RESTART);
	if (options.local_workers == 0 && !is_a_rank())
		options.local_workers = 2;
	return options.local_workers ? bench_local(&options, &config)
				     : bench_rank(&options, &config);
}
