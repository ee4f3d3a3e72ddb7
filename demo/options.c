/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line, with glibc's argp. */
#include "demo/options.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "control/release.h"
#include "demo/data.h"

static void print_version(FILE *out, struct argp_state *state)
{
	(void)state;
	fprintf(out, DEMO_NAME " %s\n", sml_release_text());
}

/* argp looks for a global variable of this name, so it must not be static. */
__attribute__((visibility("default"))) void (*argp_program_version_hook)(
	FILE *, struct argp_state *) = print_version;

enum key {
	KEY_LOSS = 256,
	KEY_DUPLICATE,
	KEY_REORDER,
	KEY_STEPS,
	KEY_EPOCHS,
	KEY_WIRE,
	KEY_JSON,
	KEY_LINK,
	KEY_GLOO
};

static const struct argp_option table[] = {
	{"workers", 'n', "N", 0, "processes to train with, 1 to 64 (4)", 1},
	{"steps", KEY_STEPS, "N", 0, "steps of training, a batch of 128 images each", 1},
	{"epochs", KEY_EPOCHS, "N", 0, "epochs of training: passes over all training images (30)",
	 1},
	{"wire", KEY_WIRE, "TYPE", 0,
	 "width of numbers on the wire: int32 or int16 (default: floats, where switches add them)",
	 1},
	{"switch", 's', "HOST:PORT", 0, "use this switch (default: rank 0 runs one)", 1},
	{"link", KEY_LINK, "MBIT", 0,
	 "show the throughput as a share of what a worker's link of this many Mbit/s can carry", 1},
#ifdef DEMO_HAVE_GLOO
	{"gloo", KEY_GLOO, "FOLDER", 0,
	 "to compare: average the gradients over Gloo's ring; the ranks meet in this empty folder",
	 1},
#endif
	{"json", KEY_JSON, "FILE", 0, "also write the summary to this file; - is standard output",
	 1},
	{0, 0, 0, 0,
	 "Faults that every worker injects into its own packets, in both directions:", 2},
	{"loss", KEY_LOSS, "PERCENT", 0, "lose packets, for instance 1%", 2},
	{"duplicate", KEY_DUPLICATE, "PERCENT", OPTION_ARG_OPTIONAL, "send packets twice (1%)", 2},
	{"reorder", KEY_REORDER, "PERCENT", OPTION_ARG_OPTIONAL, "send packets late (1%)", 2},
	{0},
};

static int parse_count(struct argp_state *state, const char *text, int most)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end != '\0' || value < 1 || value > most)
		argp_error(state, "'%s' is not a whole number from 1 to %d", text, most);
	return (int)value;
}

/* Convert "1%" or "1" to packets per million. */
static unsigned parse_percent(struct argp_state *state, const char *text)
{
	char *end;
	double value;

	if (!text)
		return 10000;
	value = strtod(text, &end);
	if (end == text || (*end != '\0' && strcmp(end, "%") != 0) || !(value >= 0 && value <= 50))
		argp_error(state, "'%s' is not a percentage from 0 to 50: write, for example, 2%%",
			   text);
	return (unsigned)(value * 10000 + 0.5);
}

static enum sml_wire parse_wire(struct argp_state *state, const char *text)
{
	if (strcmp(text, "int16") == 0)
		return SML_WIRE_INT16;
	if (strcmp(text, "int32") != 0)
		argp_error(state, "there is no wire '%s': write int32 or int16", text);
	return SML_WIRE_INT32;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct demo_options *options = state->input;

	switch (key) {
	case 'n':
		options->workers = parse_count(state, text, DEMO_MAX_WORKERS);
		return 0;
	case 's':
		options->switch_address = text;
		return 0;
	case KEY_STEPS:
		options->steps = parse_count(state, text, 1000000);
		return 0;
	case KEY_EPOCHS:
		options->steps = DEMO_EPOCH_STEPS * parse_count(state, text, 10000);
		return 0;
	case KEY_WIRE:
		options->wire = parse_wire(state, text);
		return 0;
	case KEY_LINK:
		options->link_mbit = parse_count(state, text, 1000000);
		return 0;
	case KEY_GLOO:
		options->gloo = text;
		return 0;
	case KEY_JSON:
		options->json = text;
		return 0;
	case KEY_LOSS:
		options->drop = parse_percent(state, text);
		return 0;
	case KEY_DUPLICATE:
		options->duplicate = parse_percent(state, text);
		return 0;
	case KEY_REORDER:
		options->reorder = parse_percent(state, text);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(
			state,
			"'%s' is not an option: write a percentage with =, as in --duplicate=2%%",
			text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void demo_options_parse(struct demo_options *options, int argc, char **argv)
{
	static const struct argp argp = {
		.options = table,
		.parser = parse_option,
		.doc = "Train a classifier of handwritten digits on several workers whose "
		       "gradients are "
		       "summed by a switch, and prove that the sums are right.\v"
		       "Without a launcher it starts the workers itself. Under torchrun, mpirun or "
		       "srun "
		       "(or with RANK and WORLD_SIZE set) each process is one "
		       "worker. It exits with 0 only if every proof held.",
	};

	argp_err_exit_status = 2; /* the same value as in `switchml' */
	*options = (struct demo_options){.steps = 30 * DEMO_EPOCH_STEPS};
	argp_parse(&argp, argc, argv, 0, NULL, options);
}
