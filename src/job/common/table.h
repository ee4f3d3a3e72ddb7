/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Things by number. A number's lower bits are a place in an array, and the upper bits count how
 * often the place was taken, so a number is used again only after a very long time.
 */
#ifndef SML_JOB_COMMON_TABLE_H
#define SML_JOB_COMMON_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define SML_TABLE_PLACES 16384u

/* The first member of each thing. */
struct sml_numbered {
	uint32_t number;
	struct sml_peer *peer; /* the thing is about it: the table's user sets it */
};

struct sml_table {
	struct sml_numbered **at;
	uint32_t room, n, next;
};

/* Choose a number for the thing. Returns false if the table is full, or if there is no memory. */
bool sml_table_add(struct sml_table *table, struct sml_numbered *thing);

/*
 * Add a thing with the number that it has. Returns false if there is a thing in its row, or no
 * memory.
 */
bool sml_table_put(struct sml_table *table, struct sml_numbered *thing);

struct sml_numbered *sml_table_find(const struct sml_table *table, uint32_t number);
void sml_table_remove(struct sml_table *table, const struct sml_numbered *thing);

/* The thing in row i, which is NULL for most rows. i must be less than room. */
static inline struct sml_numbered *sml_table_at(const struct sml_table *table, uint32_t i)
{
	return table->at[i];
}

void sml_table_fini(struct sml_table *table);

#endif
