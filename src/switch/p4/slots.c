/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of a job on a P4 switch: what its registers say of them, and in the staged form of the
 * program (p4/include/staged.p4), which has no arithmetic to find them, an entry for each.
 */
#include "base/clock.h"
#include "base/least.h"
#include "switch/p4/internal.h"

/* Rows in memory. A target may put them into one message. */
#define ROWS 64

/* ---- where a slot is: the target's mutex is taken ---- */

/* Only its shard's packets may use it. */
static struct sml_p4_row slot_row(const struct sml_p4_job *job, uint32_t slot)
{
	const struct sml_pool_rules *rules = &job->common.rules;
	bool is_head = slot < rules->head_slots;

	return (struct sml_p4_row){
		.table = "SmlIngress.placement.slots",
		.action = "SmlIngress.placement.slot",
		.keys = {sml_p4_number(rules->job, 4), sml_p4_number(slot, 2),
			 sml_p4_number(slot % rules->n_shards, 1)},
		.n_keys = 3,
		/* A stream's tickets begin after those of its slots. */
		.parameters = {sml_p4_number(job->first_buffer + 2 * slot, 2),
			       sml_p4_number(2u * sml_p4_job_index(job) + !is_head, 2),
			       sml_p4_number(is_head ? rules->head_slots : rules->data_slots, 4)},
		.n_parameters = 3,
	};
}

void sml_p4_slots_change(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
			 sml_p4_change *change)
{
	uint32_t slots = sml_p4_buffers(job) / 2;
	struct sml_p4_row rows[ROWS];

	for (uint32_t slot = 0; slot < slots;) {
		unsigned n = 0;

		for (; n < ROWS && slot < slots; n++)
			rows[n] = slot_row(job, slot++);
		sml_p4_must(change(dataplane->target, rows, n));
	}
}

/* ---- what registers say ---- */

/*
 * The control thread waits for the registers, and the ranks' heartbeats wait for it. A Tofino's
 * driver reads them one by one.
 */
#define LOOK_NS (500 * SML_NS_PER_MS)
/* Of the time, for looking: one part in this many. */
#define LOOK_PARTS 10
/* Two for each slot. */
#define LOOK_BUFFERS 64

/* What registers say of some of a job's buffers. */
struct buffers {
	uint32_t first, n;
	uint64_t incarnations[LOOK_BUFFERS], uses[LOOK_BUFFERS], seen[LOOK_BUFFERS];
	uint64_t seen_upper[LOOK_BUFFERS]; /* staged: the upper half */
};

/* In the pipe that all ranks of the job are at. */
static void read_slots(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
		       const struct buffers *buffers, const char *name, uint64_t *values)
{
	unsigned pipe = sml_p4_pipe(dataplane, job->peers[0][0].port);

	sml_p4_must(dataplane->operations->read_registers(dataplane->target, name, pipe,
							  job->first_buffer + buffers->first,
							  values, buffers->n));
}

static void read_simple(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
			struct buffers *in)
{
	read_slots(dataplane, job, in, "SmlIngress.slot_step.slot_incarnation", in->incarnations);
	read_slots(dataplane, job, in, "SmlIngress.slot_step.slot_use", in->uses);
	read_slots(dataplane, job, in, "SmlIngress.slot_step.slot_seen", in->seen);
}

/* There, a complete buffer has its use + 1, which its parity tells. */
static void read_staged(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
			struct buffers *in)
{
	read_slots(dataplane, job, in, "SmlIngress.slot_step.slot_use_hi", in->incarnations);
	read_slots(dataplane, job, in, "SmlIngress.slot_step.slot_use_lo", in->uses);
	read_slots(dataplane, job, in, "SmlIngress.slot_step.slot_seen_0", in->seen);
	read_slots(dataplane, job, in, "SmlIngress.slot_step.slot_seen_1", in->seen_upper);
	for (uint32_t i = 0; i < in->n; i++) {
		bool is_complete = (in->uses[i] ^ i) & 1;

		in->uses[i] = (uint32_t)(in->uses[i] - is_complete);
		in->seen[i] |= in->seen_upper[i] << 32;
		if (is_complete)
			in->seen[i] = sml_pool_all_ranks(&job->common.rules);
	}
}

static uint32_t newest_uses(const struct sml_p4_job *job, const struct buffers *buffers,
			    struct sml_slot_progress *states, uint32_t n)
{
	uint32_t found = 0;

	for (uint32_t even = 0; even < buffers->n && found < n; even += 2) {
		bool has_even = (uint32_t)buffers->incarnations[even] == job->incarnation;
		bool has_odd = (uint32_t)buffers->incarnations[even + 1] == job->incarnation;
		uint32_t newest = even;

		if (!has_even && !has_odd)
			continue;
		if (!has_even || (has_odd && sml_serial_before((uint32_t)buffers->uses[even],
							       (uint32_t)buffers->uses[even + 1])))
			newest = even + 1;
		states[found++] = (struct sml_slot_progress){
			.slot = (uint16_t)((buffers->first + even) / 2),
			.use = (uint32_t)buffers->uses[newest],
			.missing = sml_pool_all_ranks(&job->common.rules) & ~buffers->seen[newest],
		};
	}
	return found;
}

/* Those that a look has had the time for. */
uint32_t sml_p4_job_slots(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
			  struct sml_slot_progress *states, uint32_t n)
{
	uint64_t began_ns = sml_now_ns(), took_ns = 0;
	uint32_t n_buffers = sml_p4_buffers(job), found = 0;
	struct buffers buffers = {.first = 0};

	if (began_ns < dataplane->looks_again_ns || dataplane->operations->read_registers == NULL)
		return 0;
	for (; buffers.first < n_buffers && took_ns < LOOK_NS; buffers.first += buffers.n) {
		buffers.n = sml_least(n_buffers - buffers.first, LOOK_BUFFERS);
		pthread_mutex_lock(&dataplane->target_mutex);
		if (dataplane->limits.staged)
			read_staged(dataplane, job, &buffers);
		else
			read_simple(dataplane, job, &buffers);
		pthread_mutex_unlock(&dataplane->target_mutex);
		found += newest_uses(job, &buffers, states + found, n - found);
		took_ns = sml_now_ns() - began_ns;
	}
	dataplane->looks_again_ns = began_ns + LOOK_PARTS * took_ns;
	return found;
}
