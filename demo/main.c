/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switchml-demo: training on gradients that the network sums. This process is one rank;
 * demo/run, bench/on-links, torchrun, mpirun or srun start all of them.
 */
#include <argp.h>
#include <stdlib.h>

#include "demo/train.h"

enum key { KEY_STEPS = 256, KEY_JSON, KEY_GLOO };

static const struct argp_option table[] = {
	{"steps", KEY_STEPS, "N", 0, "steps of training, a batch of 128 images each (330)", 0},
#ifdef DEMO_HAVE_GLOO
	{"gloo", KEY_GLOO, "FOLDER", 0,
	 "to compare: sum the gradients over Gloo's ring; the ranks meet in this empty folder", 0},
#endif
	{"json", KEY_JSON, "FILE", 0, "also write the summary to this file", 0},
	{0},
};

static int parse_count(struct argp_state *state, const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end != '\0' || value < 1 || value > 1000000)
		argp_error(state, "'%s' is not a whole number from 1 to 1000000", text);
	return (int)value;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct demo_trainer *trainer = state->input;

	switch (key) {
	case KEY_STEPS:
		trainer->n_steps = parse_count(state, text);
		return 0;
	case KEY_GLOO:
		trainer->gloo_folder = text;
		return 0;
	case KEY_JSON:
		trainer->json = text;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = table,
	.parser = parse_option,
	.doc = "Train a classifier of handwritten digits on several workers whose gradients are "
	       "summed "
	       "by a switch, and prove that the sums are right.\v"
	       "Each process is one worker, as RANK and WORLD_SIZE, or the variables of a "
	       "launcher, "
	       "say. It exits with 0 only if every proof held.",
};

int main(int argc, char **argv)
{
	static struct demo_trainer trainer = {.n_steps = 330};
	struct sml_config config = SML_CONFIG_INIT;
	struct sml_info info = SML_INFO_INIT;
	int status;

	argp_err_exit_status = 2; /* the same value as in `switchml' */
	argp_parse(&argp, argc, argv, 0, NULL, &trainer);
	if (sml_config_init(&config) < 0 || sml_open(&trainer.job, &config) < 0)
		demo_die("cannot join the job", sml_error_text(NULL));
	if (config.wire == SML_WIRE_INT8)
		demo_die("no proof for this wire", "set SWITCHML_WIRE=int16, or nothing");
	sml_get_info(trainer.job, &info);
	trainer.rank = info.rank;
	trainer.world = info.world_size;
	trainer.wire = config.wire;
	if (trainer.gloo_folder)
		trainer.gloo = demo_gloo_open(trainer.gloo_folder, trainer.rank, trainer.world);
	demo_train(&trainer);
	if (trainer.gloo)
		demo_gloo_close(trainer.gloo);
	status = sml_close(trainer.job);
	if (status < 0)
		demo_die("cannot leave the job", sml_strerror(status));
	if (trainer.rank > 0)
		return trainer.same ? EXIT_SUCCESS : EXIT_FAILURE;
	if (!trainer.gloo_folder)
		demo_train_alone(&trainer);
	return demo_report(&trainer) ? EXIT_SUCCESS : EXIT_FAILURE;
}
