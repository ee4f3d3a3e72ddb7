/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server of BF Runtime, as bf_switchd is documented and as its published source behaves: tables
 * that are described by a bf-rt.json, registers for each pipe, multicast nodes and groups, and
 * clients that are known by their stream and bound to a program. It forwards no packet.
 *
 * It is stricter than bf_switchd where that one would only guess: each field of a key and each
 * parameter must be there once, in its exact width. What a client does wrong, it is told.
 */
#ifndef SML_TESTS_BFRT_SERVER_H
#define SML_TESTS_BFRT_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct bfrt_server;

#define BFRT_PIPES  4
#define BFRT_KEYS   4
#define BFRT_DATA   16 /* fields of an entry */
#define BFRT_BYTES  16 /* of a number */
#define BFRT_COPIES 64 /* of a list */

struct bfrt_entry {
	uint32_t table_id;
	uint8_t keys[BFRT_KEYS][BFRT_BYTES]; /* in the table's order */
	uint32_t action_id;
	/* By field id. */
	uint8_t data[BFRT_DATA][BFRT_BYTES];
	unsigned n_data_bytes[BFRT_DATA];
	uint32_t lists[BFRT_DATA][BFRT_COPIES];
	unsigned n_list[BFRT_DATA];
};

/* On a free port of 127.0.0.1. The second program is not ours. Takes the references. */
struct bfrt_server *bfrt_server_open(json_t *program, json_t *fixed);
void bfrt_server_close(struct bfrt_server *server);
uint16_t bfrt_server_port(const struct bfrt_server *server);

/* ---- what it has; table names as in bf-rt.json ---- */

unsigned bfrt_server_entries(struct bfrt_server *server, const char *table);
/* The entry whose first key is this number, or NULL if there is none. */
const struct bfrt_entry *bfrt_server_entry(struct bfrt_server *server, const char *table,
					   uint64_t key);
/* Any i-th one of the table. */
const struct bfrt_entry *bfrt_server_nth(struct bfrt_server *server, const char *table, unsigned i);
/* A parameter of an entry, by its name. */
uint64_t bfrt_server_number(struct bfrt_server *server, const struct bfrt_entry *entry,
			    const char *parameter);

/* An entry with one key and no data, as somebody else may have left it. */
void bfrt_server_leave(struct bfrt_server *server, const char *table, uint32_t key);

/* Of a register; its i-th member. */
void bfrt_server_set_register(struct bfrt_server *server, const char *table, unsigned pipe,
			      uint32_t index, unsigned i, uint64_t value);
uint64_t bfrt_server_register(struct bfrt_server *server, const char *table, unsigned pipe,
			      uint32_t index, unsigned i);
void bfrt_server_set_counter(struct bfrt_server *server, const char *table, uint32_t index,
			     uint64_t packets, uint64_t bytes);

/* ---- clients ---- */

unsigned bfrt_server_clients(struct bfrt_server *server);
/* From now on, every new client has the number of another one. */
void bfrt_server_take_numbers(struct bfrt_server *server);
/* All streams end. */
void bfrt_server_disconnect(struct bfrt_server *server);
/* Clients are told that the program is replaced. */
void bfrt_server_replace_program(struct bfrt_server *server);
/* The last time when all of the table was deleted: the n-th such time. */
unsigned bfrt_server_cleared(struct bfrt_server *server, const char *table);
/* Reads leave out their last entry. */
void bfrt_server_forget_answers(struct bfrt_server *server);

#endif
