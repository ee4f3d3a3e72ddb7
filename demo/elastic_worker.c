/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker of an elastic job: see elastic.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "demo/elastic.h"
#include "demo/report.h"
#include "demo/train.h"
#include "demo/worker.h"

/* For the other members: one that dies while all join is missed after this time. */
#define JOIN_MS 20000

static volatile sig_atomic_t wish_to_stop;

static void note_wish(int signal)
{
	(void)signal;
	wish_to_stop = 1;
}

struct worker {
	struct demo_trainer *trainer;
	const struct sml_config *config;
	int fd;
	int *step;
	struct demo_order order;
};

static int answer(const struct worker *worker, enum demo_event what, const char *text)
{
	const struct demo_trainer *trainer = worker->trainer;
	const struct demo_model *model = &trainer->model;
	struct demo_answer all = {.what = what,
				  .membership = worker->order.membership,
				  .step = *worker->step,
				  .at = demo_now(),
				  .loss = trainer->results.loss,
				  .accuracy = trainer->results.accuracy};

	if (what == DEMO_STOPPED)
		all.hash = demo_hash(model->parameters, model->n_parameters * sizeof(float));
	snprintf(all.text, sizeof(all.text), "%s", text);
	return write(worker->fd, &all, sizeof(all)) == (ssize_t)sizeof(all) ? 0 : -1;
}

/* The launcher says what has happened, in a line for each event. */
static void drop_line(void *unused, int level, const char *text)
{
	(void)unused;
	(void)level;
	(void)text;
}

static int open_job(struct worker *worker, const char *name, bool joins)
{
	struct sml_config config = *worker->config;

	config.job = name;
	config.rank = worker->order.rank;
	config.world_size = worker->order.world;
	config.join = joins;
	if (!getenv("SWITCHML_DEBUG"))
		config.log = drop_line;
	return sml_open(&worker->trainer->job, &config);
}

static const char *name_of(const struct worker *worker, int membership)
{
	static char name[96];

	snprintf(name, sizeof(name), "%.60s, membership %d", worker->config->job, membership);
	return name;
}

static int join_list(struct worker *worker)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;

	next.job = name_of(worker, worker->order.membership);
	next.rank = worker->order.rank;
	next.world_size = worker->order.world;
	next.timeout_ms = JOIN_MS;
	return worker->trainer->job ? sml_reconfigure(worker->trainer->job, &next)
				    : open_job(worker, next.job, false);
}

/* The launcher has told the new ones, too: the switch says when they wait. */
static void await_new_ones(const struct worker *worker)
{
	struct sml_context *job = worker->trainer->job;
	double began = demo_now();

	while (sml_waiting(job) < worker->order.world - sml_world_size(job) &&
	       demo_now() - began < JOIN_MS / 1e3)
		usleep(1000);
}

/* Of the first membership, there is a list. */
static int join_as_decided(struct worker *worker)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;

	if (!worker->trainer->job)
		return open_job(worker, name_of(worker, 1), true);
	await_new_ones(worker);
	next.wait_ms = JOIN_MS;
	return sml_reconfigure(worker->trainer->job, &next);
}

static int join(struct worker *worker)
{
	struct demo_trainer *trainer = worker->trainer;
	int error = trainer->options->switch_decides && worker->order.membership > 1
			    ? join_as_decided(worker)
			    : join_list(worker);

	if (error == 0) {
		trainer->rank = sml_rank(trainer->job);
		trainer->world = sml_world_size(trainer->job);
	}
	return error;
}

/*
 * All go on from the most steps: a member may have completed a step that failed on another one, and
 * a new one has made none. The lowest rank with so many sends its model.
 */
static int share_model(struct worker *worker)
{
	struct demo_trainer *trainer = worker->trainer;
	struct demo_model *model = &trainer->model;
	int32_t most = *worker->step, root = trainer->world;
	int error = sml_allreduce(trainer->job, &most, &most, 1, SML_INT32, SML_MAX, NULL);

	if (error == 0 && *worker->step == most)
		root = trainer->rank;
	if (error == 0)
		error = sml_allreduce(trainer->job, &root, &root, 1, SML_INT32, SML_MIN, NULL);
	if (error == 0)
		error = sml_broadcast(trainer->job, model->parameters, model->n_parameters,
				      SML_FLOAT32, root);
	if (error == 0)
		error = sml_broadcast(trainer->job, model->velocity, model->n_parameters,
				      SML_FLOAT32, root);
	if (error == 0)
		__atomic_store_n(worker->step, most, __ATOMIC_RELAXED);
	return error;
}

/* Until the order's last step, or until rank 0 was asked to stop. */
static int train(struct worker *worker)
{
	struct demo_trainer *trainer = worker->trainer;
	const int first = *worker->step;
	int error = 0;

	trainer->results.interrupted = false;
	while (error == 0 && *worker->step < worker->order.last && !trainer->results.interrupted) {
		error = demo_train_step(trainer, *worker->step);
		if (error)
			break;
		__atomic_store_n(worker->step, *worker->step + 1, __ATOMIC_RELAXED);
		if (*worker->step == first + 1 && answer(worker, DEMO_STEPPED, "") < 0)
			return -1;
	}
	return error ? error : demo_train_test(trainer);
}

static int be_member(struct worker *worker)
{
	struct demo_trainer *trainer = worker->trainer;
	int error;

	wish_to_stop = 0;
	error = join(worker);
	if (error)
		return answer(worker, DEMO_FAILED_CALL, sml_error_text(NULL));
	if (trainer->rank != worker->order.rank || trainer->world != worker->order.world)
		return answer(worker, DEMO_FAILED_CALL, "the switch has decided otherwise");
	error = share_model(worker);
	if (error == 0 && answer(worker, DEMO_JOINED, "") < 0)
		return -1;
	if (error == 0)
		error = train(worker);
	if (error)
		return answer(worker, DEMO_FAILED_CALL, sml_error_text(trainer->job));
	return answer(worker, DEMO_STOPPED, "");
}

static int obey(struct worker *worker)
{
	int status = answer(worker, DEMO_READY, "");

	while (status == 0 && read(worker->fd, &worker->order, sizeof(worker->order)) ==
				      (ssize_t)sizeof(worker->order)) {
		if (worker->order.last == 0)
			return sml_close(worker->trainer->job) < 0 ? DEMO_FAILED : DEMO_GOOD;
		status = be_member(worker);
	}
	return DEMO_FAILED; /* the launcher has ended */
}

int demo_elastic_worker(const struct demo_options *options, const struct sml_config *config, int fd,
			int *step)
{
	struct demo_trainer *trainer = calloc(1, sizeof(*trainer));
	struct worker worker = {.trainer = trainer, .config = config, .fd = fd, .step = step};
	struct sigaction action = {.sa_handler = note_wish, .sa_flags = SA_RESTART};
	int status = DEMO_FAILED;

	sigaction(SIGUSR1, &action, NULL);
	*step = 0;
	if (!trainer || demo_trainer_init(trainer, options) < 0) {
		demo_error(-1, "no memory, or the digits in this program are damaged");
	} else {
		trainer->stop = &wish_to_stop;
		status = obey(&worker);
	}
	if (trainer)
		demo_trainer_fini(trainer);
	free(trainer);
	return status;
}
