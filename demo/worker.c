/* SPDX-License-Identifier: BSD-3-Clause */
/* See worker.h. */
#include "demo/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "demo/report.h"
#include "demo/train.h"

static volatile sig_atomic_t stop;

static void request_stop(int signal)
{
	(void)signal;
	stop = 1;
}

/* If SIGINT was ignored, keep ignoring it: the parent (main.c) passes it on as SIGTERM. */
static void catch_signals(void)
{
	struct sigaction action = {.sa_handler = request_stop,
				   .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
	struct sigaction before;

	sigaction(SIGINT, NULL, &before);
	if (before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* How long a call of Gloo's may wait for another rank. */
#define GLOO_TIMEOUT_MS 30000

static int open_gloo(struct demo_trainer *trainer)
{
	if (!trainer->options->gloo)
		return 0;
	trainer->gloo = demo_gloo_open(trainer->options->gloo, trainer->rank, trainer->world,
				       GLOO_TIMEOUT_MS);
	return trainer->gloo ? 0 : -EIO;
}

static int open_and_train(struct demo_trainer *trainer, const struct sml_config *config)
{
	struct sml_info info = SML_INFO_INIT;
	int status, closed;

	status = sml_open(&trainer->job, config);
	if (status < 0) {
		demo_error(config->rank, "cannot join the job: %s", sml_error_text(NULL));
		return status;
	}
	catch_signals();
	sml_get_info(trainer->job, &info);
	trainer->rank = info.rank;
	trainer->world = info.world_size;
	status = open_gloo(trainer);
	if (status == 0)
		status = demo_train(trainer);
	demo_gloo_close(trainer->gloo);
	closed = sml_close(trainer->job);
	trainer->job = NULL;
	if (status == 0 && closed < 0)
		demo_error(trainer->rank, "cannot leave the job: %s", sml_strerror(closed));
	return status < 0 ? status : closed;
}

/* The other ranks know only that the parameters are equal and the sums correct. */
static int judge_own_part(const struct demo_trainer *trainer)
{
	const struct demo_results *results = &trainer->results;

	bool sums = results->gloo || demo_check_holds(&results->sum);

	if (!sums)
		demo_error(trainer->rank, "a sum is wrong: off by %g, allowed %g",
			   results->sum.error, results->sum.bound);
	if (!results->same)
		demo_error(trainer->rank, "the ranks have different parameters");
	return sums && results->same ? DEMO_GOOD : DEMO_FAILED;
}

static int report(struct demo_trainer *trainer)
{
	const struct demo_options *options = trainer->options;
	int status = options->gloo ? 0 : demo_solo_compare(trainer);

	if (status < 0) {
		if (!stop)
			demo_error(trainer->rank, "the run without SwitchML failed: %s",
				   strerror(-status));
		return stop ? DEMO_INTERRUPTED : DEMO_FAILED;
	}
	demo_summary(options, &trainer->results);
	if (options->json && demo_json(options, &trainer->results) < 0)
		return DEMO_FAILED;
	if (!demo_results_good(&trainer->results)) {
		demo_error(trainer->rank, "a proof failed: see above");
		return DEMO_FAILED;
	}
	return DEMO_GOOD;
}

static int run_training(struct demo_trainer *trainer, const struct sml_config *config)
{
	if (open_and_train(trainer, config) < 0)
		return DEMO_FAILED;
	if (trainer->results.interrupted)
		return DEMO_INTERRUPTED;
	return trainer->rank == 0 ? report(trainer) : judge_own_part(trainer);
}

int demo_worker(const struct demo_options *options, const struct sml_config *config)
{
	struct demo_trainer *trainer = calloc(1, sizeof(*trainer));
	int status = DEMO_FAILED;

	if (!trainer || demo_trainer_init(trainer, options) < 0) {
		demo_error(config->rank,
			   "no memory, or the digits in this program are damaged: build it again");
	} else {
		trainer->stop = &stop;
		status = run_training(trainer, config);
	}
	if (trainer)
		demo_trainer_fini(trainer);
	free(trainer);
	return status;
}
