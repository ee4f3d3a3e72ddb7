/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/common/table.h"

#include <stdlib.h>
#include <string.h>

static bool grow(struct sml_table *table, uint32_t room)
{
	struct sml_numbered **at = calloc(room, sizeof(struct sml_numbered *));

	if (at == NULL)
		return false;
	if (table->room > 0)
		memcpy(at, table->at, table->room * sizeof(struct sml_numbered *));
	free(table->at);
	table->at = at;
	table->room = room;
	return true;
}

/* Room for this place. */
static bool reach(struct sml_table *table, uint32_t place)
{
	uint32_t room = table->room ? table->room : 16;

	while (room <= place)
		room *= 2;
	return room == table->room || grow(table, room);
}

bool sml_table_put(struct sml_table *table, struct sml_numbered *thing)
{
	uint32_t place = thing->number % SML_TABLE_PLACES;

	if (!reach(table, place) || table->at[place] != NULL)
		return false;
	table->at[place] = thing;
	table->n++;
	return true;
}

bool sml_table_add(struct sml_table *table, struct sml_numbered *thing)
{
	uint32_t place = 0;

	if (table->n == SML_TABLE_PLACES)
		return false;
	while (place < table->room && table->at[place] != NULL)
		place++;
	thing->number = table->next++ * SML_TABLE_PLACES + place;
	return sml_table_put(table, thing);
}

struct sml_numbered *sml_table_find(const struct sml_table *table, uint32_t number)
{
	uint32_t place = number % SML_TABLE_PLACES;
	struct sml_numbered *thing = place < table->room ? table->at[place] : NULL;

	return thing != NULL && thing->number == number ? thing : NULL;
}

void sml_table_remove(struct sml_table *table, const struct sml_numbered *thing)
{
	uint32_t place = thing->number % SML_TABLE_PLACES;

	if (place < table->room && table->at[place] == thing) {
		table->at[place] = NULL;
		table->n--;
	}
}

void sml_table_fini(struct sml_table *table)
{
	free(table->at);
	*table = (struct sml_table){0};
}
