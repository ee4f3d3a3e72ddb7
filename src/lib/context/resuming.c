/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/resuming.h"

#include "lib/context/submit.h"

bool sml_resuming_keeps_now(const struct sml_resuming *resuming)
{
	return resuming->has_result || !resuming->has_before;
}

static struct sml_worker *const *keepers(const struct sml_resuming *resuming)
{
	return sml_resuming_keeps_now(resuming) ? resuming->now : resuming->before;
}

/* ---- results that other ranks lack, or that this one does ---- */

static const void *give_kept(void *self, enum sml_stream_id stream, uint32_t chunk,
			     uint16_t *n_lanes)
{
	const struct sml_resuming *resuming = self;

	return sml_resume_kept(keepers(resuming), resuming->stripe->n_shards, stream, chunk,
			       n_lanes);
}

static int adopt(void *self, enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		 uint16_t n_lanes)
{
	const struct sml_resuming *resuming = self;
	struct sml_stripe *stripe = resuming->stripe;
	struct sml_context *context = stripe->context;
	uint64_t *counted = &stripe->shards[0]->counters.tensors;
	int rc = -1;

	/* Under the lock: once a failure has stopped the threads, buffers are the application's. */
	pthread_mutex_lock(&context->lock);
	if (!sml_threads_is_stopping(&context->threads))
		rc = sml_resume_adopt(resuming->now, stripe->n_shards, stream, chunk, lanes,
				      n_lanes);
	/* The shard is parked, so its thread does not update the counter. */
	if (rc > 0)
		__atomic_add_fetch(counted, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&context->lock);
	if (rc > 0)
		sml_context_tensor_done(context, 1);
	return rc;
}

/* ---- the report ---- */

static void find_workers(struct sml_resuming *resuming)
{
	struct sml_stripe *stripe = resuming->stripe;

	resuming->has_result = resuming->has_before = false;
	for (unsigned i = 0; i < stripe->n_shards; i++) {
		struct sml_shard *shard = stripe->shards[i];

		resuming->now[i] = &shard->worker;
		resuming->before[i] = &shard->kept;
		resuming->has_before |= shard->kept_memory != NULL;
		for (uint16_t s = 0; s < shard->worker.n_slots; s++)
			resuming->has_result |= shard->worker.slots[s].kept != SML_KEPT_NONE;
	}
}

static bool write_report(struct sml_resuming *resuming, enum sml_stream_id stream)
{
	struct sml_resume_report *report = &resuming->resumption.reports[stream];
	uint32_t *lacking = resuming->space[stream].lacking, *kept = resuming->space[stream].kept;
	unsigned n = resuming->stripe->n_shards;

	*report = (struct sml_resume_report){
		.beyond = sml_resume_beyond(resuming->now, n, stream),
		.lacking = lacking,
		.n_lacking = sml_resume_lacking(resuming->now, n, stream, lacking, SML_MAX_REPORT),
		.kept = kept,
		.n_kept =
			sml_resume_kept_chunks(keepers(resuming), n, stream, kept, SML_MAX_REPORT),
	};
	return report->n_lacking <= SML_MAX_REPORT && report->n_kept <= SML_MAX_REPORT;
}

int sml_resuming_look(struct sml_resuming *resuming, struct sml_stripe *stripe)
{
	const struct sml_admission *admission = &stripe->admission;
	struct sml_context *context = stripe->context;
	bool written = true;

	resuming->stripe = stripe;
	find_workers(resuming);
	resuming->resumption = (struct sml_resumption){
		.epoch = admission->epoch,
		.tag = admission->report_tag,
		.membership = admission->membership,
		.only_integers = sml_submit_adds_only_integers(context),
		.self = resuming,
		.kept = give_kept,
		.adopt = adopt,
	};
	/* Under the lock, as in sml_data_path_renew_shards(). */
	pthread_mutex_lock(&context->lock);
	for (enum sml_stream_id stream = SML_HEAD;
	     written && !sml_threads_is_stopping(&context->threads) && stream < SML_STREAMS;
	     stream++)
		written = write_report(resuming, stream);
	pthread_mutex_unlock(&context->lock);
	if (sml_threads_is_stopping(&context->threads))
		return sml_error_set(SML_ERROR_CLOSED, "the context failed in the meantime");
	return written ? 0
		       : sml_error_set(SML_ERROR_PROTOCOL,
				       "more chunks were in progress than slots can hold: the "
				       "switch gave out impossible tickets; install the same "
				       "release on it and on all ranks (if they have it, please "
				       "report this)");
}
