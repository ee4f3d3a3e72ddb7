/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/settle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/kept.h"
#include "lib/context/context.h"
#include "lib/context/failover.h"
#include "lib/context/submit.h"
#include "lib/context/wait.h"

#define N_PASTS 2

/* How soon sml_abort() ends it. */
#define LOOK_NS (20 * SML_NS_PER_MS)

/* ---- what is left ---- */

static void forget(struct sml_context *context, struct sml_past *past)
{
	for (unsigned i = 0; i < past->n_failed; i++)
		sml_request_let_go(&context->requests, past->failed[i]);
	free(past->failed);
	free(past->kept);
	*past = (struct sml_past){.n_failed = 0};
}

static void forget_all(struct sml_context *context)
{
	for (unsigned i = 0; i < N_PASTS; i++)
		forget(context, &context->pasts.pasts[i]);
}

static void forget_older(struct sml_context *context)
{
	struct sml_past *pasts = context->pasts.pasts;

	forget(context, &pasts[0]);
	pasts[0] = pasts[1];
	pasts[1] = (struct sml_past){.n_failed = 0};
}

void sml_past_fini(struct sml_context *context)
{
	forget_all(context);
	free(context->pasts.completed);
	context->pasts.completed = NULL;
	context->pasts.n_completed = 0;
}

/* ---- a job ends ---- */

/*
 * The same on all of its ranks, and on no others. It does not show the secret at once; when packets
 * have it, the job with that secret is over.
 */
static uint64_t name_of_job(const struct sml_context *context)
{
	uint64_t secret = context->stripes[0].admission.membership;
	uint32_t low = sml_hash_step(sml_hash_step(1, (uint32_t)secret), (uint32_t)(secret >> 32));
	uint32_t high = sml_hash_step(sml_hash_step(2, (uint32_t)secret), (uint32_t)(secret >> 32));

	return (uint64_t)high << 32 | low | 1;
}

static int compare_numbers(const void *a, const void *b)
{
	const struct sml_request *const *first = a, *const *second = b;

	return sml_serial_before((*first)->tensor.number, (*second)->tensor.number) ? -1 : 1;
}

static bool note_failed(struct sml_context *context, struct sml_past *past)
{
	struct sml_request *request = NULL;
	unsigned n = 0;

	while ((request = sml_request_next_unfinished(&context->requests, request)) != NULL)
		n++;
	past->failed = calloc(n ? n : 1, sizeof(struct sml_request *));
	if (past->failed == NULL)
		return false;
	while (past->n_failed < n) {
		request = sml_request_next_unfinished(&context->requests, request);
		sml_request_retain(request);
		past->failed[past->n_failed++] = request;
	}
	qsort(past->failed, n, sizeof(struct sml_request *), compare_numbers);
	return true;
}

/* Those that have not failed are complete. */
static void note_standing(const struct sml_context *context, struct sml_past *past)
{
	uint32_t end = context->sequence.number;
	struct sml_standing *standing = &past->standing;
	unsigned n = 0;

	standing->job = name_of_job(context);
	standing->first = past->n_failed ? past->failed[0]->tensor.number : end;
	for (uint32_t call = standing->first; call != end; call++)
		if (n < past->n_failed && past->failed[n]->tensor.number == call)
			n++;
		else
			sml_standing_add(standing, call);
}

static size_t kept_bytes(const struct sml_stripe *stripe)
{
	size_t bytes = stripe->handed.n;

	for (unsigned i = 0; i < stripe->n_shards; i++) {
		bytes += sml_kept_bytes(&stripe->shards[i]->worker);
		if (stripe->shards[i]->kept_memory)
			bytes += sml_kept_bytes(&stripe->shards[i]->kept);
	}
	return bytes;
}

static uint8_t *write_kept(const struct sml_stripe *stripe, uint8_t *out)
{
	if (stripe->handed.n > 0)
		memcpy(out, stripe->handed.bytes, stripe->handed.n);
	out += stripe->handed.n;
	for (unsigned i = 0; i < stripe->n_shards; i++) {
		out = sml_kept_write(&stripe->shards[i]->worker, out);
		if (stripe->shards[i]->kept_memory)
			out = sml_kept_write(&stripe->shards[i]->kept, out);
	}
	return out;
}

/* The threads have stopped, so all workers are frozen. */
static bool note_kept(const struct sml_context *context, struct sml_past *past)
{
	size_t bytes = 0;
	uint8_t *out;

	for (unsigned i = 0; i < context->n_stripes; i++)
		bytes += kept_bytes(&context->stripes[i]);
	past->kept = out = malloc(bytes ? bytes : 1);
	if (out == NULL)
		return false;
	for (unsigned i = 0; i < context->n_stripes; i++)
		out = write_kept(&context->stripes[i], out);
	past->standing.kept_bytes = bytes;
	return true;
}

static int note_past(struct sml_context *context)
{
	uint32_t n_calls = context->sequence.number - context->pasts.first_call;
	struct sml_past past = {.n_failed = 0};

	if (!note_failed(context, &past) || !note_kept(context, &past)) {
		forget(context, &past);
		forget_all(context);
		return sml_error_set(-ENOMEM, "no memory for the calls that have failed");
	}
	note_standing(context, &past);
	/* A complete call: so all members have begun this job, and have settled what was before. */
	if (n_calls > past.n_failed)
		forget_all(context);
	if (context->pasts.pasts[0].standing.job)
		context->pasts.pasts[1] = past;
	else
		context->pasts.pasts[0] = past;
	return 0;
}

int sml_past_note_end(struct sml_context *context, bool promised)
{
	bool begun = context->pasts.begun;

	context->pasts.begun = false;
	free(context->pasts.completed);
	context->pasts.completed = NULL;
	context->pasts.n_completed = 0;
	if (!promised) {
		forget_all(context);
		return 0;
	}
	/* No switch is looked for any more, and nothing else is handed over. */
	for (unsigned i = 0; i < context->n_stripes; i++)
		sml_failover_fini(&context->stripes[i]);
	return begun ? note_past(context) : 0;
}

/* ---- the next job has begun ---- */

/* What a member hands over. */
struct gift {
	unsigned giver; /* its place in `all` */
	uint8_t *bytes;
	struct gift *next;
};

/* What all members have told: each rank has N_PASTS places. */
struct meeting {
	struct sml_context *context;
	uint64_t deadline_ns;
	struct sml_standing *all;
	unsigned n;
	struct gift *gifts; /* the last one first */
	struct sml_settlement settlement;
};

static int report_failure(struct sml_context *context, int error)
{
	return sml_error_set(error, "%s", sml_error_text(context));
}

static bool is_cancelled(const struct sml_context *context)
{
	return __atomic_load_n(&context->cancelled, __ATOMIC_ACQUIRE) != 0;
}

/* Until it is done; sml_abort() in another thread, or the deadline, end the job. */
static int await(struct meeting *meeting, struct sml_request *request)
{
	struct sml_context *context = meeting->context;
	uint64_t until_ns;
	size_t index;
	int error;

	for (;;) {
		until_ns = sml_now_ns() + LOOK_NS;
		error = sml_context_wait_any(context, &request, 1, until_ns, &index);
		if (error != -EAGAIN)
			break;
		if (is_cancelled(context))
			(void)sml_context_abort(context,
						"sml_abort() was called in sml_reconfigure()");
		else if (until_ns > meeting->deadline_ns)
			sml_context_time_out(context, request);
	}
	sml_request_finish(&context->requests, request);
	return error ? report_failure(context, error) : 0;
}

static int make_call(struct meeting *meeting, struct sml_order *order)
{
	struct sml_request *request;
	int error = sml_submit(meeting->context, order, &request);

	return error ? report_failure(meeting->context, error) : await(meeting, request);
}

static int gather(struct meeting *meeting)
{
	unsigned rank = meeting->context->settings.rank;
	size_t own = N_PASTS * sizeof(*meeting->all), all = meeting->n * sizeof(*meeting->all);
	struct sml_standing told[N_PASTS];
	struct sml_order order = {
		.spec = {.collective = SML_ALLGATHER,
			 .type = SML_BYTE,
			 .wire = SML_WIRE_INT32,
			 .count = all,
			 .send = told,
			 .send_first = own * rank,
			 .send_count = own,
			 .recv = meeting->all,
			 .recv_count = all},
		.call = {.collective = SML_ALLGATHER, .type = SML_BYTE, .count = own},
	};

	for (unsigned i = 0; i < N_PASTS; i++)
		told[i] = meeting->context->pasts.pasts[i].standing;
	return make_call(meeting, &order);
}

static int broadcast(struct meeting *meeting, struct gift *gift)
{
	uint16_t root = (uint16_t)(gift->giver / N_PASTS);
	uint64_t bytes = meeting->all[gift->giver].kept_bytes;
	bool gives = root == meeting->context->settings.rank;
	struct sml_order order = {
		.spec = {.collective = SML_BROADCAST,
			 .type = SML_BYTE,
			 .wire = SML_WIRE_INT32,
			 .root = root,
			 .count = bytes,
			 .send = gift->bytes,
			 .send_count = gives ? bytes : 0,
			 .recv = gift->bytes,
			 .recv_count = gives ? 0 : bytes},
		.call = {.collective = SML_BROADCAST,
			 .type = SML_BYTE,
			 .count = bytes,
			 .root = root},
	};

	return make_call(meeting, &order);
}

/* More than the slots of all stripes, in two epochs, and what a rank was handed, can have. */
#define MOST_KEPT ((uint64_t)8 * SML_MAX_STRIPES * SML_MAX_SLOTS * SML_MAX_PACKET_BYTES)

static int receive_gift(struct meeting *meeting, unsigned giver)
{
	const struct sml_context *context = meeting->context;
	uint64_t bytes = meeting->all[giver].kept_bytes;
	struct gift *gift = bytes > MOST_KEPT ? NULL : calloc(1, sizeof(*gift));

	if (gift)
		gift->bytes = malloc(bytes ? bytes : 1);
	if (gift == NULL || gift->bytes == NULL) {
		free(gift);
		return sml_error_set(-ENOMEM, "no memory for results of a call that has failed");
	}
	gift->giver = giver;
	gift->next = meeting->gifts;
	meeting->gifts = gift;
	if (giver / N_PASTS == context->settings.rank && bytes > 0)
		memcpy(gift->bytes, context->pasts.pasts[giver % N_PASTS].kept, bytes);
	return broadcast(meeting, gift);
}

static int settle_job(struct meeting *meeting, unsigned at)
{
	int error = 0;

	if (!sml_standing_settle(meeting->all, meeting->n, at, &meeting->settlement))
		return sml_error_set(SML_ERROR_PROTOCOL,
				     "members say that their calls were too far apart");
	for (unsigned giver = 0; error == 0 && giver < meeting->n; giver++)
		if (sml_settlement_needs(&meeting->settlement, meeting->all, meeting->n, giver))
			error = receive_gift(meeting, giver);
	return error;
}

/* The first that tells of its job. */
static bool is_first(const struct meeting *meeting, unsigned at)
{
	unsigned i = 0;

	while (meeting->all[i].job != meeting->all[at].job)
		i++;
	return i == at;
}

static int receive_gifts(struct meeting *meeting)
{
	int error = gather(meeting);

	for (unsigned at = 0; error == 0 && at < meeting->n; at++)
		if (meeting->all[at].job != 0 && is_first(meeting, at))
			error = settle_job(meeting, at);
	return error;
}

/* ---- what this rank makes of it ---- */

static size_t bytes_for(const struct meeting *meeting, const struct sml_past *past)
{
	size_t bytes = 0;

	for (const struct gift *gift = meeting->gifts; gift; gift = gift->next)
		if (meeting->all[gift->giver].job == past->standing.job)
			bytes += meeting->all[gift->giver].kept_bytes;
	return bytes;
}

/* All gifts of its job become its own, too: it may have to hand them on. */
static bool accept_gifts(const struct meeting *meeting, struct sml_past *past)
{
	size_t own = past->standing.kept_bytes, more = bytes_for(meeting, past);
	uint8_t *grown = realloc(past->kept, own + more + 1);

	if (grown == NULL)
		return false;
	past->kept = grown;
	for (const struct gift *gift = meeting->gifts; gift; gift = gift->next) {
		const struct sml_standing *giver = &meeting->all[gift->giver];

		if (giver->job != past->standing.job)
			continue;
		memcpy(past->kept + own, gift->bytes, giver->kept_bytes);
		own += giver->kept_bytes;
	}
	past->standing.kept_bytes = own;
	return true;
}

/* Its failed calls that are to be complete. Returns how many there are. */
static unsigned find_completed(const struct meeting *meeting, const struct sml_past *past,
			       struct sml_tensor **tensors)
{
	unsigned n = 0;

	for (unsigned i = 0; i < past->n_failed; i++)
		if (sml_settlement_completes(&meeting->settlement, past->failed[i]->tensor.number))
			tensors[n++] = &past->failed[i]->tensor;
	return n;
}

static int complete(const struct meeting *meeting, struct sml_past *past,
		    struct sml_tensor **tensors)
{
	unsigned n = find_completed(meeting, past, tensors);

	if (n == 0)
		return 0;
	if (!accept_gifts(meeting, past))
		return sml_error_set(-ENOMEM, "no memory for results of a call that has failed");
	sml_kept_take(past->kept, past->standing.kept_bytes, tensors, n);
	for (unsigned i = 0; i < n; i++) {
		if (!sml_tensor_is_done(tensors[i]))
			return sml_error_set(SML_ERROR_PROTOCOL,
					     "a member has completed a call, and does not have "
					     "its results (please report this)");
		sml_standing_add(&past->standing, tensors[i]->number);
	}
	return 0;
}

/* No call of this past is undecided any more: the program may ask which are complete. */
static void close_past(struct sml_context *context, struct sml_past *past, bool *completed)
{
	struct sml_pasts *pasts = &context->pasts;

	for (unsigned i = 0; i < past->n_failed; i++) {
		completed[i] = sml_tensor_is_done(&past->failed[i]->tensor);
		sml_request_let_go(&context->requests, past->failed[i]);
	}
	free(pasts->completed);
	pasts->completed = completed;
	pasts->n_completed = past->n_failed;
	free(past->failed);
	past->failed = NULL;
	past->n_failed = 0;
	past->standing.settled = 1;
}

static int settle_past(struct meeting *meeting, unsigned i)
{
	struct sml_context *context = meeting->context;
	struct sml_past *past = &context->pasts.pasts[i];
	struct sml_tensor **tensors = calloc(past->n_failed + 1u, sizeof(struct sml_tensor *));
	bool *completed = calloc(past->n_failed + 1u, sizeof(*completed));
	int error;

	if (tensors == NULL || completed == NULL) {
		free(tensors);
		free(completed);
		return sml_error_set(-ENOMEM, "no memory for the calls that have failed");
	}
	/* It had no trouble before, when the gifts were counted. */
	(void)sml_standing_settle(meeting->all, meeting->n, N_PASTS * context->settings.rank + i,
				  &meeting->settlement);
	error = complete(meeting, past, tensors);
	free(tensors);
	if (error)
		free(completed);
	else
		close_past(context, past, completed);
	return error;
}

/* Has a member told that it does not know the end of the older one's calls? */
static bool is_open(const struct meeting *meeting, const struct sml_past *past)
{
	for (unsigned i = 0; i < meeting->n; i++)
		if (meeting->all[i].job == past->standing.job && !meeting->all[i].settled)
			return true;
	return false;
}

/*
 * Of two, one is enough: while a member did not know the end of the older one, it had not begun the
 * newer one, so nobody has completed a call there.
 */
static void keep_one(struct meeting *meeting)
{
	struct sml_context *context = meeting->context;
	struct sml_past *pasts = context->pasts.pasts;

	if (pasts[1].standing.job == 0)
		return;
	if (is_open(meeting, &pasts[0]))
		forget(context, &pasts[1]);
	else
		forget_older(context);
}

static int settle_own(struct meeting *meeting)
{
	int error = 0;

	for (unsigned i = 0; error == 0 && i < N_PASTS; i++) {
		const struct sml_standing *standing = &meeting->context->pasts.pasts[i].standing;

		if (standing->job != 0 && !standing->settled)
			error = settle_past(meeting, i);
	}
	if (error == 0)
		keep_one(meeting);
	return error;
}

static void end_meeting(struct meeting *meeting)
{
	while (meeting->gifts) {
		struct gift *gift = meeting->gifts;

		meeting->gifts = gift->next;
		free(gift->bytes);
		free(gift);
	}
	free(meeting->all);
	free(meeting);
}

static int meet(struct sml_context *context, uint64_t deadline_ns)
{
	struct meeting *meeting = calloc(1, sizeof(*meeting));
	unsigned n = N_PASTS * context->settings.world_size;
	struct sml_standing *all = calloc(n, sizeof(*all));
	int error;

	if (meeting == NULL || all == NULL) {
		free(meeting);
		free(all);
		return sml_error_set(-ENOMEM, "no memory to settle the calls of the last job");
	}
	*meeting = (struct meeting){
		.context = context, .deadline_ns = deadline_ns, .all = all, .n = n};
	error = receive_gifts(meeting);
	if (error == 0)
		error = settle_own(meeting);
	end_meeting(meeting);
	return error;
}

int sml_past_settle(struct sml_context *context, bool follows, uint64_t deadline_ns)
{
	int error = follows ? meet(context, deadline_ns) : 0;

	if (error)
		return error;
	if (!follows)
		forget_all(context);
	context->pasts.first_call = context->sequence.number;
	context->pasts.begun = true;
	return 0;
}
