/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/host/slots.h"

#include <string.h>

#include "core/exact.h"

/* As uses are stored: 0 means none. */
static uint32_t counted(uint32_t use)
{
	return use + 1;
}

static size_t index_of(uint32_t slot, uint32_t use)
{
	return 2 * (size_t)slot + (use & 1);
}

static struct sml_host_buffer *buffer_of(const struct sml_host *host, uint32_t slot, uint32_t use)
{
	sml_assert(slot < sml_host_slots(&host->memory.terms));
	return &host->memory.buffers[index_of(slot, use)];
}

/* A rank's row, or, after those of all ranks, the result's. */
static struct sml_host_note *note_of(const struct sml_host *host, uint32_t slot, uint32_t use,
				     unsigned rank)
{
	const struct sml_host_memory *memory = &host->memory;
	size_t row = index_of(slot, use) * (memory->terms.n_ranks + 1u) + rank;

	return (struct sml_host_note *)(void *)(memory->rows + row * memory->row_stride);
}

void *sml_host_row(const struct sml_host *host, uint32_t slot, uint32_t use)
{
	return note_of(host, slot, use, host->rank) + 1;
}

void *sml_host_result_row(const struct sml_host *host, uint32_t slot, uint32_t use)
{
	return note_of(host, slot, use, host->memory.terms.n_ranks) + 1;
}

static void count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* ---- arriving ---- */

static uint32_t shape_of(const struct sml_contribution *in)
{
	return (uint32_t)in->lanes << 16 | (uint32_t)in->op << 8 | in->lane_kind;
}

/* A rank that has arrived at this use, or is about to, with another belief. */
static uint8_t find_other(const struct sml_host *host, const struct sml_contribution *in)
{
	for (uint8_t rank = 0; rank < host->memory.terms.n_ranks; rank++) {
		const struct sml_host_note *note = note_of(host, in->slot, in->use, rank);

		if (__atomic_load_n(&note->use, __ATOMIC_ACQUIRE) == counted(in->use) &&
		    (__atomic_load_n(&note->digest, __ATOMIC_RELAXED) != in->digest ||
		     __atomic_load_n(&note->shape, __ATOMIC_RELAXED) != shape_of(in)))
			return rank;
	}
	return host->rank;
}

/* The first rank says what the use is for. Do we agree? */
static bool agrees(struct sml_host_buffer *buffer, const struct sml_contribution *in)
{
	uint64_t mine = (uint64_t)counted(in->use) << 32 | in->digest;
	uint64_t first = __atomic_load_n(&buffer->agreed, __ATOMIC_ACQUIRE);

	while (first >> 32 != counted(in->use))
		if (__atomic_compare_exchange_n(&buffer->agreed, &first, mine, false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return true;
	return first == mine;
}

/* The row counts from now on. half_ns is written first: afterwards, any rank may be the last. */
static void arrive(struct sml_host *host, struct sml_host_buffer *buffer, uint64_t now_ns)
{
	uint32_t n_ranks = host->memory.terms.n_ranks;
	uint32_t before = __atomic_load_n(&buffer->arrived, __ATOMIC_RELAXED);

	if (before < sml_half_of(n_ranks))
		__atomic_store_n(&buffer->half_ns, now_ns, __ATOMIC_RELAXED);
	before = __atomic_fetch_add(&buffer->arrived, 1, __ATOMIC_ACQ_REL);
	count(&host->contributions, 1);
	if (before + 1 == n_ranks)
		count(&host->waited_ns,
		      sml_waited(__atomic_load_n(&buffer->half_ns, __ATOMIC_RELAXED),
				 &host->sleepers->waited_until_ns, now_ns));
}

uint8_t sml_host_arrive(struct sml_host *host, const struct sml_contribution *in, uint64_t now_ns)
{
	struct sml_host_buffer *buffer = buffer_of(host, in->slot, in->use);
	struct sml_host_note *note = note_of(host, in->slot, in->use, host->rank);

	__atomic_store_n(&note->digest, in->digest, __ATOMIC_RELAXED);
	__atomic_store_n(&note->shape, shape_of(in), __ATOMIC_RELAXED);
	__atomic_store_n(&note->use, counted(in->use), __ATOMIC_RELEASE);
	if (!agrees(buffer, in))
		return find_other(host, in);
	arrive(host, buffer, now_ns);
	return host->rank;
}

enum sml_host_state sml_host_look(const struct sml_host *host, uint32_t slot, uint32_t use)
{
	const struct sml_host_buffer *buffer = buffer_of(host, slot, use);

	if (__atomic_load_n(&buffer->done, __ATOMIC_ACQUIRE) == counted(use))
		return SML_HOST_DONE;
	if (__atomic_load_n(&buffer->summed, __ATOMIC_ACQUIRE) == counted(use))
		return SML_HOST_SUMMED;
	if (__atomic_load_n(&buffer->claimed, __ATOMIC_RELAXED) == counted(use))
		return SML_HOST_CLAIMED;
	if (__atomic_load_n(&buffer->arrived, __ATOMIC_ACQUIRE) == host->memory.terms.n_ranks)
		return SML_HOST_FULL;
	return SML_HOST_FILLING;
}

/* ---- adding up ---- */

static enum sml_lane_step step_of(unsigned rank, unsigned n_ranks)
{
	if (n_ranks == 1)
		return SML_LANES_ONLY;
	return rank == 0 ? SML_LANES_FIRST : rank + 1 < n_ranks ? SML_LANES_NEXT : SML_LANES_LAST;
}

static void add_floats(const struct sml_host *host, const struct sml_contribution *in, void *result)
{
	const struct sml_host_memory *memory = &host->memory;
	sml_exact_reduce(in->lane_kind, in->op == SML_LANE_AVG ? memory->terms.divisor : 1,
			 note_of(host, in->slot, in->use, 0) + 1, memory->row_stride,
			 memory->terms.n_ranks, in->lanes, result);
}

/* Trusts only what this rank has sent: all rows have room for a full row's lanes. */
static void add_rows(const struct sml_host *host, const struct sml_contribution *in)
{
	unsigned n_ranks = host->memory.terms.n_ranks;
	void *result = sml_host_result_row(host, in->slot, in->use), *stored = result;
	/* Sums that will be rounded take more room than a row. */
	int32_t sums[SML_ROUNDED_BLOCKS_MAX * SML_ROUNDED_BLOCK];

	sml_assert(in->lanes <= host->memory.terms.lanes);
	if (sml_lane_is_float(in->lane_kind)) {
		add_floats(host, in, result);
		return;
	}
	if (sml_lane_is_rounded(in->lane_kind))
		stored = sums;
	for (unsigned rank = 0; rank < n_ranks; rank++)
		sml_lanes_combine(in->op, in->lane_kind, step_of(rank, n_ranks), stored,
				  note_of(host, in->slot, in->use, rank) + 1, in->lanes);
	if (stored != result)
		memcpy(result, stored, 4u * in->lanes);
}

static uint32_t draw_ticket(const struct sml_host *host, uint32_t slot)
{
	const struct sml_host_memory *memory = &host->memory;
	enum sml_stream_id stream = slot < memory->terms.head_slots ? SML_HEAD : SML_DATA;

	return __atomic_fetch_add(&memory->head->tickets[stream].value, 1, __ATOMIC_RELAXED);
}

static bool claim(struct sml_host_buffer *buffer, uint32_t use)
{
	uint32_t before = __atomic_load_n(&buffer->claimed, __ATOMIC_RELAXED);

	return before != counted(use) &&
	       __atomic_compare_exchange_n(&buffer->claimed, &before, counted(use), false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Nobody arrives at the buffer again before it has seen this. */
static void finish(struct sml_host *host, struct sml_host_buffer *buffer, uint32_t use,
		   uint32_t ticket)
{
	__atomic_store_n(&buffer->ticket, ticket, __ATOMIC_RELAXED);
	__atomic_store_n(&buffer->done, counted(use), __ATOMIC_RELEASE);
	host->has_news = true;
}

bool sml_host_add(struct sml_host *host, const struct sml_contribution *in, bool placed,
		  uint8_t *differs)
{
	struct sml_host_buffer *buffer = buffer_of(host, in->slot, in->use);
	uint8_t other;

	if (!claim(buffer, in->use))
		return false;
	other = find_other(host, in);
	if (other != host->rank) {
		*differs = other;
		return false;
	}
	if (!placed)
		add_rows(host, in);
	__atomic_store_n(&buffer->arrived, 0, __ATOMIC_RELAXED);
	count(&host->added, 1);
	if (host->memory.terms.goes_up) {
		__atomic_store_n(&buffer->summed, counted(in->use), __ATOMIC_RELEASE);
		host->has_sum = true;
		return true;
	}
	finish(host, buffer, in->use, draw_ticket(host, in->slot));
	return true;
}

void sml_host_publish(struct sml_host *host, const struct sml_contribution *in, uint32_t ticket,
		      const void *lanes)
{
	sml_assert(in->lanes <= host->memory.terms.lanes);
	memcpy(sml_host_result_row(host, in->slot, in->use), lanes, 4u * in->lanes);
	finish(host, buffer_of(host, in->slot, in->use), in->use, ticket);
}

const void *sml_host_result(const struct sml_host *host, uint32_t slot, uint32_t use,
			    uint32_t *ticket)
{
	*ticket = __atomic_load_n(&buffer_of(host, slot, use)->ticket, __ATOMIC_RELAXED);
	return sml_host_result_row(host, slot, use);
}

/* ---- for people ---- */

bool sml_host_newest(const struct sml_host *host, uint32_t slot, uint32_t *use, uint64_t *missing)
{
	uint32_t newest = 0;

	for (uint32_t parity = 0; parity < 2; parity++) {
		uint64_t agreed =
			__atomic_load_n(&buffer_of(host, slot, parity)->agreed, __ATOMIC_ACQUIRE);
		uint32_t its = (uint32_t)(agreed >> 32);

		if (its && (newest == 0 || sml_serial_before(newest, its)))
			newest = its;
	}
	if (newest == 0)
		return false;
	*use = newest - 1;
	*missing = 0;
	for (unsigned rank = 0; rank < host->memory.terms.n_ranks; rank++)
		if (__atomic_load_n(&note_of(host, slot, *use, rank)->use, __ATOMIC_RELAXED) !=
		    newest)
			*missing |= (uint64_t)1 << rank;
	return true;
}
