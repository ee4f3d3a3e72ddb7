/* SPDX-License-Identifier: BSD-3-Clause */
/* A stripe without a network: see stripe_rig.h. */
#include "support/stripe_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/thread.h"
#include "lib/progress/progress.h"

/* ---- a transport that carries nothing ---- */

struct idle_transport {
	struct sml_transport base;
	struct stripe_rig *rig;
};

static void note_use(const struct sml_transport *transport)
{
	struct stripe_rig *rig = ((const struct idle_transport *)transport)->rig;

	if (__atomic_load_n(&rig->foreign, __ATOMIC_SEQ_CST))
		__atomic_add_fetch(&rig->n_abuses, 1, __ATOMIC_SEQ_CST);
}

static unsigned idle_send(struct sml_transport *transport, struct sml_batch *batch)
{
	note_use(transport);
	sml_batch_clear(batch);
	return 0;
}

static unsigned idle_receive(struct sml_transport *transport, struct sml_packet *packets)
{
	(void)packets;
	note_use(transport);
	transport->drained = true;
	return 0;
}

static void idle_close(struct sml_transport *transport)
{
	close(transport->poll_fd);
	free(transport);
}

static const struct sml_transport_ops idle = {
	.name = "idle", .send = idle_send, .receive = idle_receive, .close = idle_close};

struct sml_transport *stripe_rig_transport(struct stripe_rig *rig)
{
	struct idle_transport *transport = calloc(1, sizeof(*transport));

	assert_non_null(transport);
	transport->rig = rig;
	transport->base.ops = &idle;
	transport->base.poll_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(transport->base.poll_fd >= 0);
	return &transport->base;
}

/* ---- the stripe ---- */

static const struct sml_job_form form = {.path = SML_PATH_RANKS};

static void tensor_done(void *self, uint64_t n)
{
	(void)self;
	(void)n;
}

/* The thread has seen the value of `park`, and may stall before it acts on it. */
static bool park(void *self, struct sml_shard *shard)
{
	struct stripe_rig *rig = self;

	if (__atomic_load_n(&rig->holds, __ATOMIC_SEQ_CST)) {
		sem_post(&rig->held);
		sem_wait(&rig->go);
	}
	return sml_context_park_shard(&rig->context, shard);
}

static void add_shard(struct stripe_rig *rig, unsigned index, unsigned n_shards)
{
	const struct sml_worker_config config = {
		.epoch = 1,
		.shape = {.lanes = 64, .rank = 0, .n_ranks = 2},
		.head_slots = rig->stripe.admission.head_slots,
		.data_slots = rig->stripe.admission.data_slots,
		.shard = (uint8_t)index,
		.n_shards = (uint8_t)n_shards,
		.n_stripes = 1,
		.window_max = 8,
	};
	struct sml_threads *threads = &rig->context.threads;
	struct sml_progress *progress = sml_progress_new(threads, index);
	struct sml_line *line = sml_line_new(stripe_rig_transport(rig), NULL);

	assert_true(progress && line);
	progress->lines[progress->n_lines++] = line;
	threads->threads[threads->n_threads++] = progress;
	rig->stripe.shards[index] = sml_shard_new(&config, line, &rig->stripe.park);
	assert_non_null(rig->stripe.shards[index]);
	rig->stripe.n_shards++;
}

void stripe_rig_open(struct stripe_rig *rig, unsigned n_shards)
{
	const struct sml_threads_owner owner = {rig, tensor_done, park};
	struct sml_context *context = &rig->context;

	*rig = (struct stripe_rig){.foreign = false};
	sem_init(&rig->held, 0, 0);
	sem_init(&rig->go, 0, 0);
	context->owner = getpid();
	context->shape = (struct sml_shape){.lanes = 64, .rank = 0, .n_ranks = 2};
	context->settings.world_size = 2;
	context->form = &form;
	context->stripes = &rig->stripe;
	context->n_stripes = 1;
	pthread_mutex_init(&context->lock, NULL);
	sml_cond_init(&context->changed);
	sml_requests_init(&context->requests);
	sml_threads_init(&context->threads, &context->requests, &owner);
	rig->stripe.context = context;
	rig->stripe.admission = (struct sml_admission){.epoch = 1,
						       .window_packets = 8,
						       .lanes = 64,
						       .head_slots = (uint16_t)(2 * n_shards),
						       .data_slots = (uint16_t)(8 * n_shards),
						       .shards = (uint8_t)n_shards};
	for (unsigned i = 0; i < n_shards; i++)
		add_shard(rig, i, n_shards);
}

void stripe_rig_close(struct stripe_rig *rig)
{
	struct sml_context *context = &rig->context;

	sml_threads_stop(&context->threads);
	for (unsigned i = 0; i < context->threads.n_threads; i++)
		sml_progress_free(context->threads.threads[i]);
	for (unsigned i = 0; i < rig->stripe.n_shards; i++)
		sml_shard_free(rig->stripe.shards[i]);
	sml_requests_fini(&context->requests);
	sml_threads_fini(&context->threads);
	pthread_mutex_destroy(&context->lock);
	pthread_cond_destroy(&context->changed);
	sem_destroy(&rig->held);
	sem_destroy(&rig->go);
}
