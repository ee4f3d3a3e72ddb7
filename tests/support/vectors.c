/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the shared test vectors: see vectors.h. */
#include "support/vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/element.h"
#include "support/packet.h"

#define LINE_BYTES 1024

static void stop(unsigned line, const char *what)
{
	fprintf(stderr, "vectors, line %u: %s\n", line, what);
	exit(1);
}

/* Cuts NAME=VALUE in two. Returns the value. */
static char *cut_off_value(unsigned line, char *word)
{
	char *equals = strchr(word, '=');

	if (equals == NULL)
		stop(line, word);
	*equals = '\0';
	return equals + 1;
}

static void read_world(struct vector *vector, char *words)
{
	struct sml_pool_rules *rules = &vector->rules;
	char *save, *value;

	*rules = (struct sml_pool_rules){
		.tag = 0x7461672d7461672d,
		.job = VECTOR_JOB,
		.epoch = VECTOR_EPOCH,
		.head_slots = 1,
		.data_slots = 1,
		.lanes = VECTOR_LANES,
		.n_shards = 1,
		.rounds = true,
		.parent = {.cookie = 0x9a9e47c00c1e0000,
			   .tag = 0x9a9e477a67a67a67,
			   .job = VECTOR_PARENT_JOB,
			   .rank = VECTOR_PARENT_RANK},
	};
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		value = cut_off_value(vector->line, word);
		if (strcmp(word, "ranks") == 0)
			rules->n_ranks = (uint8_t)atoi(value);
		else if (strcmp(word, "head") == 0)
			rules->head_slots = (uint16_t)atoi(value);
		else if (strcmp(word, "data") == 0)
			rules->data_slots = (uint16_t)atoi(value);
		else if (strcmp(word, "lanes") == 0)
			rules->lanes = (uint16_t)atoi(value);
		else if (strcmp(word, "shards") == 0)
			rules->n_shards = (uint8_t)atoi(value);
		else if (strcmp(word, "leaf") == 0)
			rules->is_leaf = atoi(value) != 0;
		else if (strcmp(word, "floats") == 0)
			rules->floats = atoi(value) != 0;
		else
			stop(vector->line, word);
	}
	for (unsigned rank = 0; rank < rules->n_ranks; rank++)
		rules->cookies[rank] = 0xc00c1e0000000000u + rank;
	rules->divisor = rules->is_leaf ? 1 : rules->n_ranks;
}

/* A number, or two or four narrow ones. */
static uint32_t read_lane(char *word)
{
	unsigned parts = 1, bits;
	uint32_t lane = 0;

	for (const char *at = word; *at != '\0'; at++)
		parts += *at == ':';
	bits = 32 / parts;
	for (unsigned i = 0; i < parts; i++) {
		uint32_t part = (uint32_t)strtoll(word, &word, 10);

		lane |= part << (32 - bits) >> (bits * i);
		word += *word == ':';
	}
	return lane;
}

static uint32_t read_lanes(unsigned line, char *text, uint32_t *lanes)
{
	char *save, *times;
	uint32_t n = 0, lane;
	int left;

	for (char *word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		times = strchr(word, '*');
		if (times)
			*times++ = '\0';
		lane = read_lane(word);
		for (left = times ? atoi(times) : 1; left > 0; left--) {
			if (n == VECTOR_LANES)
				stop(line, "too many lanes");
			lanes[n++] = lane;
		}
	}
	return n;
}

static uint8_t kind_of(unsigned line, const char *name)
{
	static const struct {
		const char *name;
		uint8_t kind;
	} kinds[] = {{"int32", SML_LANE_INT32},
		     {"int16", SML_LANE_INT16_PAIR},
		     {"rounded16", SML_LANE_INT16_ROUNDED},
		     {"rounded8", SML_LANE_INT8_ROUNDED},
		     {"float32", SML_LANE_FLOAT32},
		     {"float16", SML_LANE_FLOAT16},
		     {"bfloat16", SML_LANE_BFLOAT16},
		     {"bad", SML_LANE_BFLOAT16 + 1}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(name, kinds[i].name) == 0)
			return kinds[i].kind;
	stop(line, name);
	return 0;
}

/* One field of a packet, NAME=VALUE; cut bytes are taken off at the end. */
static void read_field(struct vector *vector, char *name, char *value, uint32_t *cut)
{
	struct sml_header *header = (struct sml_header *)vector->packet;
	uint32_t number = (uint32_t)strtoul(value, NULL, 10);
	sml_any_u32 *lanes = (sml_any_u32 *)(header + 1);
	uint32_t n;

	if (strcmp(name, "rank") == 0 || strcmp(name, "last") == 0) {
		header->rank = (uint8_t)number;
	} else if (strcmp(name, "slot") == 0) {
		header->slot_be = sml_be16((uint16_t)number);
	} else if (strcmp(name, "use") == 0) {
		header->use_be = sml_be32(number);
	} else if (strcmp(name, "digest") == 0) {
		header->digest_be = sml_be32(number);
	} else if (strcmp(name, "chunk") == 0 || strcmp(name, "ticket") == 0) {
		header->chunk_be = sml_be32(number);
	} else if (strcmp(name, "shard") == 0) {
		header->shard = (uint8_t)number;
	} else if (strcmp(name, "job") == 0) {
		header->job_be = sml_be32(number);
	} else if (strcmp(name, "epoch") == 0) {
		header->epoch_be = sml_be32(number);
	} else if (strcmp(name, "version") == 0) {
		header->version = (uint8_t)number;
	} else if (strcmp(name, "packet") == 0) {
		header->kind = (uint8_t)number;
	} else if (strcmp(name, "cut") == 0) {
		*cut = number;
	} else if (strcmp(name, "claim") == 0) {
		header->lanes_be = sml_be16((uint16_t)number);
	} else if (strcmp(name, "magic") == 0) {
		header->magic_be ^= 1;
	} else if (strcmp(name, "cookie") == 0 || strcmp(name, "tag") == 0) {
		header->key_be ^= 1;
	} else if (strcmp(name, "op") == 0) {
		header->op = strcmp(value, "bad") == 0	 ? SML_LANE_AVG + 1
			     : strcmp(value, "avg") == 0 ? SML_LANE_AVG
			     : strcmp(value, "max") == 0 ? SML_LANE_MAX
							 : SML_LANE_SUM;
	} else if (strcmp(name, "kind") == 0) {
		header->lane_kind = kind_of(vector->line, value);
	} else if (strcmp(name, "lanes") == 0) {
		n = read_lanes(vector->line, value, lanes);
		for (uint32_t i = 0; i < n; i++)
			lanes[i] = sml_be32(lanes[i]);
		header->lanes_be = sml_be16((uint16_t)n);
		vector->length = SML_HEADER_BYTES + 4 * n;
	} else {
		stop(vector->line, name);
	}
}

static void read_packet(struct vector *vector, const struct sml_pool_rules *rules, char *words)
{
	struct sml_header *header = (struct sml_header *)vector->packet;
	uint32_t cut = 0, rank = 0;
	char *save, *value;

	/* The rank comes first, for its cookie; what else is wrong is said after it. */
	sscanf(words, " rank=%u", &rank);
	if (vector->is_result)
		*header = packet_header(SML_PACKET_RESULT,
					rules->is_leaf ? rules->parent.job : VECTOR_JOB,
					VECTOR_EPOCH, rules->parent.tag, 0);
	else
		*header = packet_header(SML_PACKET_CONTRIBUTION, VECTOR_JOB, VECTOR_EPOCH,
					rank < SML_MAX_CHILDREN ? rules->cookies[rank] : 0, 0);
	vector->length = SML_HEADER_BYTES;
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		value = cut_off_value(vector->line, word);
		read_field(vector, word, value, &cut);
	}
	vector->length -= cut;
}

static enum sml_verdict verdict_of(const struct vector *vector, const char *name)
{
	for (unsigned i = 0; i < SML_VERDICTS; i++)
		if (strcmp(sml_verdict_name((enum sml_verdict)i), name) == 0)
			return (enum sml_verdict)i;
	stop(vector->line, name);
	return SML_VERDICTS;
}

static void read_answer(struct vector *vector, char *words)
{
	char *save, *word = strtok_r(words, " ", &save), *value;

	if (word == NULL)
		stop(vector->line, "no verdict");
	vector->verdict = verdict_of(vector, word);
	vector->goes_up =
		vector->verdict == SML_VERDICT_FULL || vector->verdict == SML_VERDICT_RESEND_UP;
	while ((word = strtok_r(NULL, " ", &save)) != NULL) {
		value = cut_off_value(vector->line, word);
		if (strcmp(word, "ticket") == 0) {
			vector->has_ticket = true;
			vector->ticket = (uint32_t)strtoul(value, NULL, 10);
		} else if (strcmp(word, "chunk") == 0) {
			vector->chunk = (uint32_t)strtoul(value, NULL, 10);
		} else if (strcmp(word, "last") == 0) {
			vector->last_rank = (uint8_t)atoi(value);
		} else if (strcmp(word, "lanes") == 0) {
			vector->n_lanes = read_lanes(vector->line, value, vector->lanes);
		} else {
			stop(vector->line, word);
		}
	}
}

bool vector_header_is_right(const struct vector *vector, const struct sml_pool_rules *rules,
			    const struct sml_header *header)
{
	struct sml_header sent;

	memcpy(&sent, vector->packet, sizeof(sent));
	if (header->epoch_be != sml_be32(rules->epoch) || header->use_be != sent.use_be ||
	    header->slot_be != sent.slot_be || header->shard != sent.shard ||
	    header->lanes_be != sml_be16((uint16_t)vector->n_lanes))
		return false;
	if (vector->goes_up)
		return header->kind == SML_PACKET_CONTRIBUTION &&
		       header->job_be == sml_be32(rules->parent.job) &&
		       header->key_be == sml_be64(rules->parent.cookie) &&
		       header->chunk_be == sml_be32(vector->chunk) &&
		       header->rank == rules->parent.rank;
	return header->kind == SML_PACKET_RESULT && header->job_be == sml_be32(rules->job) &&
	       header->key_be == sml_be64(rules->tag) &&
	       header->chunk_be == sml_be32(vector->ticket) && header->rank == vector->last_rank;
}

/* rules: of the last world, for the packets' cookies and tag. */
static void read_next(FILE *file, const struct sml_pool_rules *rules, unsigned *line,
		      struct vector *vector)
{
	char text[LINE_BYTES], *arrow;

	*vector = (struct vector){.kind = VECTOR_END};
	while (fgets(text, sizeof(text), file)) {
		vector->line = ++*line;
		text[strcspn(text, "#\n")] = '\0';
		if (text[strspn(text, " ")] == '\0')
			continue;
		if (strncmp(text, "world ", 6) == 0) {
			vector->kind = VECTOR_WORLD;
			read_world(vector, text + 6);
		} else if (sscanf(text, "age %u", &vector->age) == 1) {
			vector->kind = VECTOR_AGE;
		} else if ((arrow = strstr(text, "->")) != NULL &&
			   (strncmp(text, "send ", 5) == 0 || strncmp(text, "result ", 7) == 0)) {
			vector->kind = VECTOR_SEND;
			vector->is_result = text[0] == 'r';
			*arrow = '\0';
			read_packet(vector, rules, strchr(text, ' ') + 1);
			read_answer(vector, arrow + 2);
		} else {
			stop(*line, text);
		}
		return;
	}
}

void *vector_pool_open(struct sml_pool *pool, const struct sml_pool_rules *rules)
{
	void *memory = malloc(sml_pool_memory_bytes(rules));

	assert_non_null(memory);
	sml_pool_init(pool, rules, memory);
	return memory;
}

void vector_pool_age(struct sml_pool *pool, uint32_t use)
{
	for (uint32_t i = 0; i < 2u * (pool->rules.head_slots + pool->rules.data_slots); i++) {
		pool->slots[i].state = SML_SLOT_COMPLETE;
		pool->slots[i].seen = sml_pool_all_ranks(&pool->rules);
		pool->slots[i].use = use + (i & 1) - 2;
	}
}

void vectors_run(const struct vector_steps *steps, void *self)
{
	FILE *file = fopen(getenv("SML_VECTORS"), "r");
	struct sml_pool_rules rules = {0};
	struct vector vector;
	unsigned line = 0;

	assert_non_null(file);
	for (;;) {
		read_next(file, &rules, &line, &vector);
		if (vector.kind == VECTOR_END)
			break;
		if (vector.kind == VECTOR_WORLD)
			rules = vector.rules;
		if (rules.floats && !steps->floats)
			continue;
		if (vector.kind == VECTOR_WORLD) {
			steps->begin_world(self, &vector);
		} else if (vector.kind == VECTOR_AGE) {
			steps->age(self, &vector);
		} else {
			steps->send(self, &vector);
		}
	}
	fclose(file);
}
