/* SPDX-License-Identifier: BSD-3-Clause */
/* Continue after a switch has died: see resume.h. */
#include "core/resume.h"

/* ---- a rank's report ---- */

uint32_t sml_resume_beyond(struct sml_worker *const *workers, unsigned n_workers,
			   enum sml_stream_id stream)
{
	uint32_t beyond = workers[0]->streams[stream].beyond;

	for (unsigned i = 1; i < n_workers; i++)
		beyond = sml_serial_max(beyond, workers[i]->streams[stream].beyond);
	return beyond;
}

/* A shard that got its tensors later than the others knows less than they do. */
static struct sml_tensor *find(struct sml_worker *const *workers, unsigned n_workers,
			       enum sml_stream_id stream, uint32_t chunk, uint32_t *index)
{
	struct sml_tensor *tensor = NULL;

	for (unsigned i = 0; i < n_workers && tensor == NULL; i++)
		tensor = sml_worker_find(workers[i], stream, chunk, index);
	return tensor;
}

static uint32_t first_unretired(struct sml_worker *const *workers, unsigned n_workers,
				enum sml_stream_id stream)
{
	uint32_t first = workers[0]->retired[stream];

	for (unsigned i = 1; i < n_workers; i++)
		first = sml_serial_max(first, workers[i]->retired[stream]);
	return first;
}

uint32_t sml_resume_lacking(struct sml_worker *const *workers, unsigned n_workers,
			    enum sml_stream_id stream, uint32_t *chunks, uint32_t capacity)
{
	uint32_t beyond = sml_resume_beyond(workers, n_workers, stream);
	uint32_t chunk = first_unretired(workers, n_workers, stream);
	uint32_t n = 0, index;
	struct sml_tensor *tensor;

	/* A lying switch's ticket can put `beyond` 2^31 chunks away. */
	for (; sml_serial_before(chunk, beyond) && n <= capacity; chunk++) {
		tensor = find(workers, n_workers, stream, chunk, &index);
		if (tensor != NULL && sml_tensor_chunk_is_done(tensor, stream, index))
			continue;
		if (n < capacity)
			chunks[n] = chunk;
		n++;
	}
	return n;
}

/* Sift the element at `at` down in a heap of n elements. */
static void sift(uint32_t *heap, uint32_t at, uint32_t n)
{
	uint32_t value = heap[at];

	for (uint32_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
		if (child + 1 < n && heap[child + 1] > heap[child])
			child++;
		if (heap[child] <= value)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = value;
}

/* Heapsort: needs no memory, and takes the same time for any order. */
void sml_resume_sort(uint32_t *chunks, uint32_t n)
{
	for (uint32_t at = n / 2; at-- > 0;)
		sift(chunks, at, n);
	for (uint32_t left = n; left > 1; left--) {
		uint32_t largest = chunks[0];

		chunks[0] = chunks[left - 1];
		chunks[left - 1] = largest;
		sift(chunks, 0, left - 1);
	}
}

uint32_t sml_resume_kept_chunks(struct sml_worker *const *workers, unsigned n_workers,
				enum sml_stream_id stream, uint32_t *chunks, uint32_t capacity)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < n_workers; i++) {
		const struct sml_queues *queues = &workers[i]->streams[stream];

		for (uint16_t s = queues->first_slot; s < queues->first_slot + queues->n_slots;
		     s++) {
			if (workers[i]->slots[s].kept != SML_KEPT_COPY)
				continue;
			if (n < capacity)
				chunks[n] = workers[i]->slots[s].kept_chunk;
			n++;
		}
	}
	sml_resume_sort(chunks, n < capacity ? n : capacity);
	return n;
}

/* ---- handing over ---- */

const void *sml_resume_kept(struct sml_worker *const *workers, unsigned n_workers,
			    enum sml_stream_id stream, uint32_t chunk, uint16_t *n_lanes)
{
	for (unsigned i = 0; i < n_workers; i++) {
		const struct sml_worker *worker = workers[i];
		const struct sml_queues *queues = &worker->streams[stream];

		for (uint16_t s = queues->first_slot; s < queues->first_slot + queues->n_slots;
		     s++) {
			if (worker->slots[s].kept != SML_KEPT_COPY ||
			    worker->slots[s].kept_chunk != chunk)
				continue;
			*n_lanes = worker->slots[s].kept_lanes;
			return worker->kept + (size_t)s * worker->kept_stride;
		}
	}
	return NULL;
}

int sml_resume_adopt(struct sml_worker *const *workers, unsigned n_workers,
		     enum sml_stream_id stream, uint32_t chunk, const void *lanes, uint16_t n_lanes)
{
	struct sml_contribution described;
	struct sml_tensor *tensor;
	uint32_t index;

	tensor = find(workers, n_workers, stream, chunk, &index);
	if (tensor == NULL)
		return -1;
	/* A chunk's lanes depend on its exponents. */
	if (!sml_tensor_chunk_is_ready(tensor, stream, index))
		return -1;
	sml_tensor_describe_chunk(tensor, stream, index, &described);
	if (described.lanes != n_lanes)
		return -1;
	return sml_tensor_take(tensor, stream, index, lanes) ? 1 : 0;
}

/* ---- the switch's plan ---- */

bool sml_resume_lacks(const struct sml_resume_report *report, uint32_t chunk)
{
	uint32_t low = 0, high = report->n_lacking;

	if (!sml_serial_before(chunk, report->beyond))
		return true;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (report->lacking[middle] == chunk)
			return true;
		if (sml_serial_before(report->lacking[middle], chunk))
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

static bool keeps(const struct sml_resume_report *report, uint32_t chunk)
{
	uint32_t low = 0, high = report->n_kept;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (report->kept[middle] < chunk)
			low = middle + 1;
		else
			high = middle;
	}
	return low < report->n_kept && report->kept[low] == chunk;
}

static int find_keeper(const struct sml_resume_report *reports, unsigned n_ranks, uint32_t chunk)
{
	for (unsigned rank = 0; rank < n_ranks; rank++)
		if (keeps(&reports[rank], chunk) && !sml_resume_lacks(&reports[rank], chunk))
			return (int)rank;
	return -1;
}

static bool all_lack(const struct sml_resume_report *reports, unsigned n_ranks, uint32_t chunk)
{
	for (unsigned rank = 0; rank < n_ranks; rank++)
		if (!sml_resume_lacks(&reports[rank], chunk))
			return false;
	return true;
}

/* The lowest chunk from `from` on that any rank lacks. */
static uint32_t next_lacked(const struct sml_resume_report *reports, unsigned n_ranks,
			    uint32_t from, uint32_t end, uint32_t *cursors)
{
	uint32_t lowest = end;

	for (unsigned rank = 0; rank < n_ranks; rank++) {
		const struct sml_resume_report *report = &reports[rank];
		uint32_t *cursor = &cursors[rank], chunk;

		while (*cursor < report->n_lacking &&
		       sml_serial_before(report->lacking[*cursor], from))
			++*cursor;
		if (*cursor < report->n_lacking)
			chunk = report->lacking[*cursor];
		else
			chunk = sml_serial_max(report->beyond, from);
		if (sml_serial_before(chunk, lowest))
			lowest = chunk;
	}
	return lowest;
}

int sml_resume_merge(const struct sml_resume_report *reports, unsigned n_ranks,
		     struct sml_resume_plan *plan, uint32_t capacity)
{
	uint32_t cursors[SML_MAX_WORLD] = {0};
	uint32_t beyond = reports[0].beyond, chunk, from;

	sml_assert(n_ranks >= 1 && n_ranks <= SML_MAX_WORLD);
	for (unsigned rank = 1; rank < n_ranks; rank++)
		beyond = sml_serial_max(beyond, reports[rank].beyond);
	plan->n_handovers = 0;
	plan->n_table = 0;
	plan->after = beyond;

	from = plan->after - (UINT32_MAX >> 1);
	while ((chunk = next_lacked(reports, n_ranks, from, plan->after, cursors)) != plan->after) {
		int keeper;

		from = chunk + 1;
		if (all_lack(reports, n_ranks, chunk)) {
			if (plan->n_table == capacity)
				return -1;
			plan->table[plan->n_table++] = chunk;
			continue;
		}
		keeper = find_keeper(reports, n_ranks, chunk);
		if (keeper < 0)
			return -2;
		if (plan->n_handovers == capacity)
			return -1;
		plan->handovers[plan->n_handovers++] =
			(struct sml_resume_handover){chunk, (uint16_t)keeper, false};
	}
	return 0;
}

/* ---- the new epoch ---- */

void sml_resume_begin(struct sml_worker *next, const struct sml_worker *frozen,
		      const struct sml_ticket_map maps[SML_STREAMS])
{
	sml_assert(frozen->frozen);
	for (uint32_t i = frozen->oldest; i != frozen->newest; i++) {
		uint32_t place = i % SML_WORKER_TENSORS;

		next->tensors[place] = frozen->tensors[place];
		next->windows[place][SML_HEAD] = frozen->windows[place][SML_HEAD];
		next->windows[place][SML_DATA] = frozen->windows[place][SML_DATA];
	}
	next->oldest = frozen->oldest;
	next->newest = frozen->newest;
	next->retired[SML_HEAD] = frozen->retired[SML_HEAD];
	next->retired[SML_DATA] = frozen->retired[SML_DATA];
	next->counters = frozen->counters;
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++)
		sml_worker_set_map(next, stream, &maps[stream], frozen->streams[stream].beyond);
}
