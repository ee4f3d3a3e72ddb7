/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues of slots, by their index in a worker: doubly linked lists, in order of
 * arrival or of chunks. The links are stored beside the slots, so nothing is
 * allocated, and a slot is in at most one of the lists that share links.
 */
#ifndef SML_CORE_QUEUE_H
#define SML_CORE_QUEUE_H

#include "core/base.h"

#define SML_NO_SLOT UINT16_MAX

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

/* Insert slot after `after`, or at the front if that is SML_NO_SLOT. */
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

/*
 * Keep a list ascending by chunk. Chunks come almost in order, so searching
 * from the end is faster than a heap. The front is checked first, because slots
 * that had to wait come back there.
 */
static inline void sml_list_insert_sorted(struct sml_list *list, uint16_t slot,
					  const uint32_t *chunks)
{
	uint16_t after = list->last;

	if (list->n > 0 && sml_serial_before(chunks[slot], chunks[list->first]))
		after = SML_NO_SLOT;
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
