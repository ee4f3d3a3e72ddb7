/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two small queues of slots, by their index in a worker: a binary heap ordered
 * by chunk, and doubly linked lists whose links live beside the slots. Neither
 * allocates; a slot is in at most one place of each kind.
 */
#ifndef SML_CORE_QUEUE_H
#define SML_CORE_QUEUE_H

#include "core/base.h"

#define SML_NO_SLOT UINT16_MAX

/* Lowest chunk first. chunks[slot] must not change while the slot is inside. */
struct sml_heap {
	uint16_t *slots;
	const uint32_t *chunks;
	uint16_t n;
};

static inline void sml_heap_push(struct sml_heap *heap, uint16_t slot)
{
	uint32_t chunk = heap->chunks[slot];
	uint16_t i = heap->n++;

	while (i > 0) {
		uint16_t parent = (uint16_t)((i - 1) / 2);

		if (!sml_serial_before(chunk, heap->chunks[heap->slots[parent]]))
			break;
		heap->slots[i] = heap->slots[parent];
		i = parent;
	}
	heap->slots[i] = slot;
}

static inline uint16_t sml_heap_top(const struct sml_heap *heap)
{
	return heap->n ? heap->slots[0] : SML_NO_SLOT;
}

static inline uint16_t sml_heap_pop(struct sml_heap *heap)
{
	uint16_t top = heap->slots[0];
	uint16_t last = heap->slots[--heap->n];
	uint16_t i = 0;

	for (;;) {
		uint16_t child = (uint16_t)(2 * i + 1);

		if (child >= heap->n)
			break;
		if (child + 1 < heap->n && sml_serial_before(heap->chunks[heap->slots[child + 1]],
							     heap->chunks[heap->slots[child]]))
			child++;
		if (!sml_serial_before(heap->chunks[heap->slots[child]], heap->chunks[last]))
			break;
		heap->slots[i] = heap->slots[child];
		i = child;
	}
	heap->slots[i] = last;
	return top;
}

struct sml_link {
	uint16_t previous, next;
};

struct sml_list {
	struct sml_link *links;
	uint16_t first, last;
	uint16_t n;
};

static inline void sml_list_init(struct sml_list *list, struct sml_link *links)
{
	*list = (struct sml_list){links, SML_NO_SLOT, SML_NO_SLOT, 0};
}

/* Put slot behind `after`, or first where that is SML_NO_SLOT. */
static inline void sml_list_insert(struct sml_list *list, uint16_t slot, uint16_t after)
{
	uint16_t next = after == SML_NO_SLOT ? list->first : list->links[after].next;

	list->links[slot] = (struct sml_link){after, next};
	if (after == SML_NO_SLOT)
		list->first = slot;
	else
		list->links[after].next = slot;
	if (next == SML_NO_SLOT)
		list->last = slot;
	else
		list->links[next].previous = slot;
	list->n++;
}

static inline void sml_list_append(struct sml_list *list, uint16_t slot)
{
	sml_list_insert(list, slot, list->last);
}

/* Keep a list ascending by chunk. Chunks come almost in order: look from the end. */
static inline void sml_list_insert_sorted(struct sml_list *list, uint16_t slot,
					  const uint32_t *chunks)
{
	uint16_t after = list->last;

	while (after != SML_NO_SLOT && sml_serial_before(chunks[slot], chunks[after]))
		after = list->links[after].previous;
	sml_list_insert(list, slot, after);
}

static inline void sml_list_remove(struct sml_list *list, uint16_t slot)
{
	struct sml_link link = list->links[slot];

	if (link.previous == SML_NO_SLOT)
		list->first = link.next;
	else
		list->links[link.previous].next = link.next;
	if (link.next == SML_NO_SLOT)
		list->last = link.previous;
	else
		list->links[link.next].previous = link.previous;
	list->n--;
}

#endif
