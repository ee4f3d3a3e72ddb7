/* SPDX-License-Identifier: BSD-3-Clause */
/* The one invariant: no code reads beyond the end of a line, for any table. */
#include "bindings/mpi/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADING	   "switchml-mpi-table 1"
#define LINE_BYTES 1024
#define N_FIELDS   6

static const char *const type_words[SML_MPI_TYPES] = {
	[SML_FLOAT32] = "float32", [SML_FLOAT16] = "float16", [SML_BFLOAT16] = "bfloat16",
	[SML_INT32] = "int32",	   [SML_BYTE] = "byte",	      [SML_FLOAT64] = "float64",
	[SML_INT64] = "int64",	   [SML_UINT8] = "uint8",     [SML_INT8] = "int8",
	[SML_INT16] = "int16",	   [SML_BOOL] = "bool",
};
static const char *const hosts_words[] = {"each", "one", "some"};
static const char *const switch_words[] = {"dedicated", "embedded"};
static const char *const op_words[] = {"sum", "max", "reduce"}; /* enum sml_mpi_sizes */

#define ANY	       (-1)
#define NONE	       (-2)
#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

/* The word's position in a list, or ANY, or NONE. */
static int find_word(const char *word, const char *const *words, size_t n)
{
	if (strcmp(word, "*") == 0)
		return ANY;
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, words[i]) == 0)
			return (int)i;
	return NONE;
}

bool sml_mpi_parse_bytes(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	*bytes = strtoull(text, &end, 10);
	if (*bytes > UINT64_MAX >> 32)
		return false;
	if (*end) {
		unit = strchr(units, *end++);
		if (unit == NULL)
			return false;
		*bytes <<= 10 * (unit - units + 1);
	}
	return *end == '\0' && *bytes > 0;
}

void sml_mpi_bytes_fill(struct sml_mpi_bytes *bytes, uint64_t value)
{
	for (size_t type = 0; type < SML_MPI_TYPES; type++)
		for (int size = 0; size < SML_MPI_SIZES; size++)
			bytes->of[type][size] = value;
}

const char *sml_mpi_type_word(enum sml_type type)
{
	return type_words[type];
}

const char *sml_mpi_hosts_word(enum sml_mpi_hosts hosts)
{
	return hosts_words[hosts];
}

struct row {
	int embedded, hosts, type, op; /* or ANY */
	long ranks;
	uint64_t from;
};

/* Split the line into fields, in place. Returns their number, or more than the maximum. */
static size_t split(char *line, char *fields[N_FIELDS])
{
	char *rest = line, *word;
	size_t n = 0;

	line[strcspn(line, "#")] = '\0';
	while ((word = strtok_r(rest, " \t\r", &rest)) != NULL) {
		if (n == N_FIELDS)
			return N_FIELDS + 1;
		fields[n++] = word;
	}
	return n;
}

static bool parse_ranks(const char *text, long *ranks)
{
	char *end;

	*ranks = strtol(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == '\0' && *ranks <= SML_MPI_MAX_RANKS;
}

/* Returns NULL, or the name of the column that is wrong. */
static const char *parse_row(char *fields[N_FIELDS], struct row *row)
{
	row->embedded = find_word(fields[0], switch_words, COUNT_OF(switch_words));
	if (row->embedded == NONE)
		return "switch: dedicated, embedded or *";
	row->hosts = find_word(fields[1], hosts_words, COUNT_OF(hosts_words));
	if (row->hosts == NONE)
		return "hosts: each, one, some or *";
	if (!parse_ranks(fields[2], &row->ranks))
		return "ranks: a whole number up to 64";
	row->type = find_word(fields[3], type_words, COUNT_OF(type_words));
	if (row->type == NONE)
		return "type: float32, float64, int32 …, or *";
	row->op = find_word(fields[4], op_words, COUNT_OF(op_words));
	if (row->op == NONE)
		return "op: sum, max, reduce or *";
	row->from = SML_MPI_NEVER;
	if (strcmp(fields[5], "never") != 0 && !sml_mpi_parse_bytes(fields[5], &row->from))
		return "from: bytes (1 or more, also with K, M or G), or never";
	return NULL;
}

static bool fits(int wanted, int is)
{
	return wanted == ANY || wanted == is;
}

static bool fits_op(int wanted, int is)
{
	return fits(wanted, is) || (wanted == SML_MPI_SUM && is == SML_MPI_SUM_IN_PARTS);
}

static void apply(const struct row *row, const struct sml_mpi_site *site,
		  struct sml_mpi_bytes *from)
{
	if (!fits(row->embedded, site->embedded) || !fits(row->hosts, (int)site->hosts) ||
	    row->ranks > site->ranks)
		return;
	for (int type = 0; type < (int)SML_MPI_TYPES; type++)
		for (int op = 0; op < SML_MPI_SIZES; op++)
			if (fits(row->type, type) && fits_op(row->op, op))
				from->of[type][op] = row->from;
}

/* Returns NULL, or what is wrong with this line, which is not empty. */
static const char *read_line(char *line, bool first, const struct sml_mpi_site *site,
			     struct sml_mpi_bytes *from)
{
	char *fields[N_FIELDS];
	const char *wrong;
	struct row row;
	size_t n;

	if (first) {
		/* A line may also end as on Windows. */
		line[strcspn(line, "\r")] = '\0';
		return strcmp(line, HEADING) == 0 ? NULL : "not \"" HEADING "\"";
	}
	n = split(line, fields);
	if (n == 0)
		return NULL;
	if (n != N_FIELDS)
		return "not six columns: switch, hosts, ranks, type, op, from";
	wrong = parse_row(fields, &row);
	if (wrong == NULL)
		apply(&row, site, from);
	return wrong;
}

bool sml_mpi_table_read(const char *text, const struct sml_mpi_site *site,
			struct sml_mpi_bytes *from, char *why, size_t why_bytes)
{
	struct sml_mpi_bytes found = *from;
	const char *wrong = NULL;
	size_t number = 0;

	while (wrong == NULL && (*text || number == 0)) {
		size_t length = strcspn(text, "\n");
		char line[LINE_BYTES];

		number++;
		if (length >= sizeof(line)) {
			wrong = "longer than 1023 characters";
			break;
		}
		memcpy(line, text, length);
		line[length] = '\0';
		text += length + (text[length] == '\n');
		wrong = read_line(line, number == 1, site, &found);
	}
	if (wrong) {
		snprintf(why, why_bytes, "line %zu: %s", number, wrong);
		return false;
	}
	*from = found;
	return true;
}

/*
 * Bytes over a rank's link for each element. MPI's best algorithms send 2(n-1)/n times an
 * element's size. SwitchML sends 4 for float32 and int32, 12 for sums of 64 bits, 8 for
 * their MAX and MIN, 2 for sums of narrow integers, and 4 for their MAX and MIN. A switch in
 * the ranks sends as many as a ring, or more. Sums of 64 bits save a seventh with 8 ranks, which is
 * where they were measured to be faster (docs/mpi.md); 6 and 7 ranks save less, and were not. A
 * reduce or a reduce-scatter of them can move fewer bytes through MPI: 8 an element, or less.
 */
const char *sml_mpi_table_default(void)
{
	return HEADING "\n"
		       "dedicated each 3 float32 *   256K\n"
		       "dedicated each 3 int32   *   256K\n"
		       "dedicated each 3 float64 max 256K\n"
		       "dedicated each 3 int64   max 256K\n"
		       "dedicated each 3 int16   sum 256K\n"
		       "dedicated each 8 float64 sum 256K\n"
		       "dedicated each 8 int64   sum 256K\n"
		       "dedicated each 8 float64 reduce never\n"
		       "dedicated each 8 int64   reduce never\n";
}
