/* SPDX-License-Identifier: BSD-3-Clause */
/* The training loop. train.h shows what a step looks like. */
#include "demo/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "demo/report.h"

const int demo_sizes[DEMO_LAYERS + 1] = {DEMO_PIXELS, 512, 512, DEMO_CLASSES};

int demo_trainer_init(struct demo_trainer *trainer, const struct demo_options *options)
{
	int status = demo_digits_load(&trainer->digits);

	if (status < 0)
		return status;
	trainer->options = options;
	demo_digits_shuffle(&trainer->digits, DEMO_SEED);
	trainer->batches.digits = &trainer->digits;
	trainer->batches.seed = DEMO_SEED;
	status = demo_model_init(&trainer->model, demo_sizes, DEMO_LAYERS, DEMO_BATCH_ROWS,
				 DEMO_SEED);
	if (status < 0)
		return status;
	trainer->average = calloc(trainer->model.n_parameters, sizeof(float));
	return trainer->average ? 0 : -ENOMEM;
}

void demo_trainer_fini(struct demo_trainer *trainer)
{
	free(trainer->average);
	demo_model_fini(&trainer->model);
}

int demo_call(struct demo_trainer *trainer, const char *what, int status)
{
	if (status < 0)
		demo_error(trainer->rank, "%s: %s", what, sml_error_text(trainer->job));
	return status;
}

/* No rank continues before all have read their link's counters. */
static int meter_link(struct demo_trainer *trainer, uint64_t factor)
{
	uint64_t sent, received;
	int status = demo_link_read(trainer->rank, &sent, &received);

	trainer->traffic.link_sent += factor * sent;
	trainer->traffic.link_received += factor * received;
	if (status == 0 && sent > 0)
		status = demo_call(trainer, "barrier", sml_barrier(trainer->job, NULL, NULL));
	return status;
}

/* Count traffic only while training: sign 1 stops the meter, -1 starts it again. */
static int meter(struct demo_trainer *trainer, int sign)
{
	struct sml_counters now = SML_COUNTERS_INIT;
	struct demo_traffic *traffic = &trainer->traffic;
	uint64_t factor = (uint64_t)sign; /* modulo 2^64, as the sum is */
	int status = demo_call(trainer, "counters", sml_get_counters(trainer->job, -1, &now, NULL));

	traffic->bytes_sent += factor * now.bytes_sent;
	traffic->packets_sent += factor * now.packets_sent;
	traffic->retransmits += factor * (now.retransmits_timeout + now.retransmits_fast);
	return status < 0 ? status : meter_link(trainer, factor);
}

static const struct sml_options gradients = {.size = sizeof(gradients), .wire = SML_WIRE_GRADIENT};

/* Start a request: the gradients' averages, or two sums, which are exact. */
static int submit(struct demo_trainer *trainer, int request, const float *in, float *out,
		  size_t count, enum sml_op op)
{
	if (trainer->gloo) {
		demo_gloo_submit(trainer->gloo, request, in, out, count, op == SML_AVG);
		return 0;
	}
	return demo_call(trainer, "all-reduce",
			 sml_allreduce(trainer->job, in, out, count, SML_FLOAT32, op, &gradients,
				       &trainer->requests[request]));
}

/* A layer's gradient is ready: start its all-reduce, and continue the backward pass. */
static int submit_layer(void *context, int l)
{
	struct demo_trainer *trainer = context;
	const struct demo_layer *layer = &trainer->model.layers[l];
	double began = demo_now();
	int status;

	if (l == DEMO_LAYERS - 1)
		trainer->reduce_began = began;
	status = submit(trainer, l, trainer->model.gradient + layer->offset,
			trainer->average + layer->offset, layer->count, SML_AVG);
	trainer->results.waiting += demo_now() - began;
	return status;
}

static int submit_news(struct demo_trainer *trainer, double loss)
{
	trainer->news[0] = (float)(loss / DEMO_BATCH_ROWS);
	trainer->news[1] = *trainer->stop ? 1.0f : 0.0f;
	return submit(trainer, DEMO_LAYERS, trainer->news, trainer->news, 2, SML_SUM);
}

static int wait_for(struct demo_trainer *trainer, int request)
{
	double began = demo_now();
	int status = trainer->gloo ? demo_gloo_wait(trainer->gloo, request)
				   : demo_call(trainer, "waiting for an all-reduce",
					       sml_wait(&trainer->requests[request], 1, -1, NULL));

	trainer->results.waiting += demo_now() - began;
	return status;
}

/* The shard's part of a step: forward and backward pass, all-reduces started. */
static int compute(struct demo_trainer *trainer, int step)
{
	/*
	 * The gradients are the shards' sums times world, so their average over the ranks is the
	 * batch's mean, even if the shards differ in length.
	 */
	float scale = (float)trainer->world / (float)DEMO_BATCH_ROWS;
	int first, end, status;
	double loss;

	demo_shard(DEMO_BATCH_ROWS, trainer->rank, trainer->world, &first, &end);
	demo_batches_copy(&trainer->batches, step, first, end, trainer->pixels, trainer->labels);
	demo_model_forward(&trainer->model, trainer->pixels, end - first);
	loss = demo_model_loss(&trainer->model, trainer->labels, end - first, scale);
	status = demo_model_backward(&trainer->model, trainer->pixels, end - first, submit_layer,
				     trainer);
	return status < 0 ? status : submit_news(trainer, loss);
}

static int train_step(struct demo_trainer *trainer, int step)
{
	struct demo_results *results = &trainer->results;
	double began = demo_now();
	int status = compute(trainer, step);

	for (int l = DEMO_LAYERS - 1; l >= 0 && status == 0; l--) {
		status = wait_for(trainer, l);
		if (l == 0)
			results->reducing += demo_now() - trainer->reduce_began;
		if (status == 0)
			demo_model_update(&trainer->model, l, trainer->average, DEMO_RATE,
					  DEMO_MOMENTUM);
	}
	if (status == 0)
		status = wait_for(trainer, DEMO_LAYERS);
	if (status < 0) {
		(void)sml_wait(trainer->requests, DEMO_LAYERS + 1, -1, NULL);
		return status;
	}
	results->seconds += demo_now() - began;
	results->steps = step + 1;
	results->loss = (double)trainer->news[0];
	results->interrupted = trainer->news[1] > 0;
	return status;
}

/* Every rank tests its part of the test images. Sets results.accuracy. All ranks must call this. */
static int test(struct demo_trainer *trainer)
{
	int first, end, status;
	int32_t right;

	demo_shard(DEMO_TEST_ROWS, trainer->rank, trainer->world, &first, &end);
	first += DEMO_TRAIN_ROWS;
	end += DEMO_TRAIN_ROWS;
	right = demo_model_count_right(&trainer->model, trainer->digits.pixels[first],
				       trainer->digits.labels + first, end - first);
	status = demo_call(
		trainer, "all-reduce of the test",
		sml_allreduce(trainer->job, &right, &right, 1, SML_INT32, SML_SUM, NULL, NULL));
	trainer->results.accuracy = (double)right / DEMO_TEST_ROWS;
	return status;
}

static void show_progress(const struct demo_trainer *trainer, bool last)
{
	const struct demo_results *r = &trainer->results;
	double bytes = 4.0 * (double)trainer->model.n_parameters * r->steps;
	char speed[32];

	if (trainer->rank != 0)
		return;
	/* The line must fit into a terminal of 80 columns. */
	if (trainer->options->link_mbit && !trainer->gloo)
		snprintf(speed, sizeof(speed), "link %.0f %%",
			 100 * demo_link_share(trainer->options, r));
	else
		snprintf(speed, sizeof(speed), "%.1f MB/s", 1e-6 * bytes / r->reducing);
	demo_progress(last,
		      "step %d/%d  loss %.4f  test %.1f %%  all-reduce %.0f %% of the time  %s",
		      r->steps, trainer->options->steps, r->loss, 100 * r->accuracy,
		      100 * r->waiting / r->seconds, speed);
}

/* Share the counters of all ranks. The results get the largest value and the sums. */
static int share_traffic(struct demo_trainer *trainer)
{
	struct demo_traffic all[DEMO_MAX_WORKERS], *sum = &trainer->results.traffic;
	int status = demo_call(trainer, "all-gather of the counters",
			       sml_allgather(trainer->job, &trainer->traffic, all,
					     sizeof(trainer->traffic), SML_BYTE, NULL, NULL));

	for (int rank = 0; rank < trainer->world && status == 0; rank++) {
		if (all[rank].bytes_sent > sum->bytes_sent)
			sum->bytes_sent = all[rank].bytes_sent;
		sum->packets_sent += all[rank].packets_sent;
		sum->retransmits += all[rank].retransmits;
		if (all[rank].link_sent > sum->link_sent)
			sum->link_sent = all[rank].link_sent;
		if (all[rank].link_received > sum->link_received)
			sum->link_received = all[rank].link_received;
	}
	return status;
}

/* A step with a proof. Its traffic and time do not count. */
static int proved_step(struct demo_trainer *trainer, int step)
{
	int status = train_step(trainer, step);

	if (status == 0)
		status = meter(trainer, 1);
	if (status == 0)
		status = demo_proof_sums(trainer);
	return status < 0 ? status : meter(trainer, -1);
}

static int train_steps(struct demo_trainer *trainer)
{
	int n_steps = trainer->options->steps, status = meter(trainer, -1);

	for (int step = 0; step < n_steps && status == 0; step++) {
		bool last = step == n_steps - 1;

		if (!trainer->gloo && demo_proof_due(step, n_steps))
			status = proved_step(trainer, step);
		else
			status = train_step(trainer, step);
		last |= trainer->results.interrupted;
		if (status == 0 && (step == 0 || (step + 1) % DEMO_EPOCH_STEPS == 0 || last))
			status = test(trainer);
		if (status == 0)
			show_progress(trainer, last);
		if (last)
			break;
	}
	return status < 0 ? status : meter(trainer, 1);
}

int demo_train(struct demo_trainer *trainer)
{
	struct demo_model *model = &trainer->model;
	int status;

	trainer->results.world = trainer->world;
	trainer->results.gloo = trainer->gloo != NULL;
	trainer->results.n_parameters = model->n_parameters;
	/*
	 * All ranks have drawn the same parameters, but the broadcast makes sure, as in any
	 * training.
	 */
	status = demo_call(trainer, "broadcast of the parameters",
			   sml_broadcast(trainer->job, model->parameters, model->n_parameters,
					 SML_FLOAT32, 0, NULL, NULL));
	if (status == 0)
		status = train_steps(trainer);
	if (status == 0 && !trainer->results.interrupted)
		status = demo_proof_same(trainer);
	if (status == 0)
		status = share_traffic(trainer);
	return status;
}
