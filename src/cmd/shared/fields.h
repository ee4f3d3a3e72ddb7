/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The members of a switch's status, and of the rates that view.h derives from two of them: their
 * names, where they are in memory, and what is said of them. JSON, its schema and the metrics read
 * this one table; the texts for people have layouts of their own.
 */
#ifndef SML_CMD_SHARED_FIELDS_H
#define SML_CMD_SHARED_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sml_field_type {
	SML_FIELD_TEXT,	    /* char *; if it is nullable, NULL is unknown */
	SML_FIELD_BOOLEAN,  /* protobuf_c_boolean */
	SML_FIELD_U32,	    /* uint32_t */
	SML_FIELD_U64,	    /* uint64_t */
	SML_FIELD_MS,	    /* uint64_t: milliseconds */
	SML_FIELD_INT,	    /* int; below 0, it is unknown */
	SML_FIELD_NEXT,	    /* uint32_t: 1 plus the value; 0 is unknown */
	SML_FIELD_REAL,	    /* double; if it is nullable, a value below 0 is unknown */
	SML_FIELD_PART,	    /* a record of other members of the same struct */
	SML_FIELD_RECORDS,  /* an array of pointers to structs */
	SML_FIELD_COUNTERS, /* an array of pointers to counters, which have names */
};

struct sml_record;

struct sml_field {
	const char *name;
	enum sml_field_type type;
	bool nullable;
	/* In the record's struct. Of an optional place, 1 is added: 0 means that there is none. */
	size_t offset;
	size_t count;	/* of an array: where its size_t is */
	size_t known;	/* optional: a bool, false while the value is unknown */
	size_t through; /* optional: a pointer to the struct that has the value; NULL if unknown */
	uint32_t least, most;		 /* of a number; most is 0 if there is no limit */
	const struct sml_record *record; /* of a part, and of an array's structs */
	const char *help;		 /* may be NULL */
};

struct sml_record {
	const struct sml_field *fields;
	size_t n;
	const struct sml_record *rates; /* that JSON adds with --watch; NULL if there are none */
};

/* Of SmlControl__Status, and of the messages in it. */
extern const struct sml_record sml_switch_record, sml_leaf_record, sml_job_record,
	sml_branch_record, sml_worker_record;

/* Of struct sml_switch_rates, sml_job_rates, sml_rank_rates and sml_branch_rates. */
extern const struct sml_record sml_switch_rates_record, sml_job_rates_record, sml_rank_rates_record,
	sml_branch_rates_record;

/* Where the value is in this record; NULL if it is unknown. */
const void *sml_field_at(const struct sml_field *field, const void *record);

/* Searches the record's parts, too. NULL if there is no such field. */
const struct sml_field *sml_field_find(const struct sml_record *record, const char *name);

#endif
