/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml bench`: decides which ranks this process starts, or which rank it
 * is.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench/bench.h"
#include "cmd/commands.h"

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

int sml_command_bench(int argc, char **argv)
{
	struct bench_options options;
	struct sml_config config;
	char faults[128];

	bench_parse(argc, argv, &options);
	if (sml_config_init(&config) < 0) {
		fprintf(stderr, "switchml bench: %s\n", sml_error_text(NULL));
		return 1;
	}
	/* The report has it all. */
	if (!getenv("SWITCHML_SUMMARY"))
		config.summary = 0;
	/* A call asks for its wire, or for the default one: its bound is for that. */
	bench_default_wire(&options, config.wire);
	config.wire = SML_WIRE_DEFAULT;
	if (options.switch_address)
		config.switch_address = options.switch_address;
	else if (config.switch_address && *config.switch_address)
		options.switch_address = config.switch_address;
	if (options.chaos && options.switch_address) {
		fprintf(stderr, "switchml bench: --chaos starts and kills its own switch: leave "
				"out --switch, and unset SWITCHML_SWITCH\n");
		return 2;
	}
	if (options.chaos_ranks && options.switch_address &&
	    !strcmp(options.switch_address, "embedded")) {
		fprintf(stderr, "switchml bench: --chaos-ranks needs a switch: without --switch, "
				"it starts one\n");
		return 2;
	}
	if (options.job)
		config.job = options.job;
	if (options.drop || options.duplicate || options.reorder) {
		snprintf(faults, sizeof(faults), "drop=%u,duplicate=%u,reorder=%u,seed=%u",
			 options.drop, options.duplicate, options.reorder, options.seed);
		config.faults = faults;
	}
	if (options.chaos_ranks) {
		bench_end_by_signals(0);
		return bench_chaos_ranks(&options, &config);
	}
	if (options.seconds)
		bench_end_by_signals(SA_RESTART);
	if (options.local_workers == 0 && !is_a_rank())
		options.local_workers = 2;
	return options.local_workers ? bench_local(&options, &config)
				     : bench_rank(&options, &config, -1);
}
