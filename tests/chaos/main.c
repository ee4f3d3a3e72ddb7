/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of build/tests/chaos: that of `switchml bench`, and what is killed. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/chaos.h"
#include "cmd/shared/command.h"
#include "support/switch_process.h"

/* With --chaos-ranks. */
#define RANKS_MAX     (1u << 20)
#define RANKS_SECONDS 10
#define RANKS_TYPES   (1u << SML_FLOAT32 | 1u << SML_INT32 | 1u << SML_INT64)

/* Packets per million that chaos loses, duplicates and delays. */
#define PER_MILLION 10000

enum { OPTION_CHAOS = 512, OPTION_RANKS, OPTION_SWITCH_DECIDES, OPTION_CHANGES };

static const struct argp_option known_options[] = {
	{"chaos", OPTION_CHAOS, NULL, 0,
	 "lose, duplicate and delay 1 % of all packets, and kill and restart the switch every "
	 "second",
	 10},
	{"chaos-ranks", OPTION_RANKS, NULL, 0,
	 "instead of measuring, kill and restart ranks; with --chaos, the switch, too", 10},
	{"switch-decides", OPTION_SWITCH_DECIDES, NULL, 0,
	 "with --chaos-ranks, the switch decides which ranks go on", 10},
	{"changes", OPTION_CHANGES, "N", 0,
	 "with --chaos-ranks, end after N changes of its members", 10},
	{0},
};

static void set_ranks(struct chaos_options *options)
{
	options->ranks = true;
	options->bench.default_max = RANKS_MAX;
	options->bench.default_types = RANKS_TYPES;
}

/* The options of bench are complete. */
static void finish(struct chaos_options *options, const struct argp_state *state)
{
	if (!options->chaos && !options->ranks)
		argp_error(state, "--chaos, --chaos-ranks or both say what is killed");
	if ((options->changes || options->switch_decides) && !options->ranks)
		argp_error(state, "--changes and --switch-decides are for --chaos-ranks");
	if (options->ranks && options->bench.json)
		argp_error(state, "--json is for --chaos alone");
	if (!options->bench.local_workers)
		options->bench.local_workers = 4;
	if (options->ranks && !options->changes && !options->bench.seconds)
		options->bench.seconds = RANKS_SECONDS;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct chaos_options *options = state->input;
	struct bench_options *bench = &options->bench;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = bench;
		return 0;
	case OPTION_CHAOS:
		options->chaos = true;
		bench->drop = bench->duplicate = bench->reorder = PER_MILLION;
		return 0;
	case OPTION_RANKS:
		set_ranks(options);
		return 0;
	case OPTION_SWITCH_DECIDES:
		options->switch_decides = true;
		return 0;
	case OPTION_CHANGES:
		options->changes = (unsigned)strtoul(text, NULL, 10);
		if (options->changes == 0)
			argp_error(state, "--changes=%s: it must be 1 or more", text);
		return 0;
	case ARGP_KEY_END:
		finish(options, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int run(struct chaos_options *options, struct sml_config *config)
{
	const char *address;
	int status = bench_prepare(&options->bench, config);

	if (status)
		return status;
	address = options->bench.switch_address;
	if (options->chaos && address) {
		fprintf(stderr, "chaos: --chaos starts and kills its own switch: leave out "
				"--switch, and unset SWITCHML_SWITCH\n");
		return 2;
	}
	if (address && !strcmp(address, "embedded")) {
		fprintf(stderr, "chaos: --chaos-ranks needs a switch: without --switch, it starts "
				"one\n");
		return 2;
	}
	if (!options->ranks)
		return chaos_kill_switches(options, config);
	bench_end_by_signals(0);
	return chaos_kill_ranks(options, config);
}

int main(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&bench_argp, 0, "Options of `switchml bench':", 0}, {0}};
	static const struct argp argp = {
		.options = known_options,
		.parser = parse_option,
		.children = children,
		.doc = "Run `switchml bench' while its switch is killed, or sums of ranks that are "
		       "killed.\v"
		       "--chaos-ranks kills a rank about every second, sometimes two at once, and "
		       "starts it again after at most 0.8 seconds. Those that are left go on with "
		       "sml_reconfigure(), and those that are back join them. Every sum must be "
		       "that of the members of one membership, with the same bits on all of them; "
		       "every call must end in time; and every error must follow from what was "
		       "killed. It takes 10 seconds, or --seconds, or --changes.",
	};
	struct chaos_options options;
	struct sml_config config;

	switch_process_main(argc, argv);
	sml_standard_hold();
	argp_err_exit_status = 2;
	options = (struct chaos_options){.bench = bench_defaults()};
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	return sml_standard_finish("bench", run(&options, &config));
}
