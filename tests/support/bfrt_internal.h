/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the server of BF Runtime share: see bfrt_server.h. */
#ifndef SML_TESTS_BFRT_INTERNAL_H
#define SML_TESTS_BFRT_INTERNAL_H

#include <grpc/grpc.h>
#include <pthread.h>

#include "bfrt_server.h"
#include "bfruntime.pb-c.h"
#include "status.pb-c.h"

#define MAX_ENTRIES 32768
#define MAX_CLIENTS 8
#define MAX_MEMBERS 4
#define PROGRAM	    "switchml"
#define ALL_PIPES   0xffff
#define ALL	    0xff

struct cell {
	uint32_t table_id, index;
	uint64_t values[BFRT_PIPES][MAX_MEMBERS];
};

struct client {
	struct bfrt_server *server;
	grpc_call *call;
	grpc_completion_queue *queue;
	grpc_metadata_array metadata;
	pthread_t thread;
	uint32_t id;
	bool used, subscribed, bound;
};

struct bfrt_server {
	grpc_server *server;
	grpc_completion_queue *queue;
	pthread_t thread;
	uint16_t port;
	pthread_mutex_t mutex;
	json_t *program, *fixed;
	struct bfrt_entry *entries;
	unsigned n_entries;
	struct cell *cells;
	unsigned n_cells;
	struct client clients[MAX_CLIENTS];
	bool forgets, numbers_are_taken;
	uint32_t cleared[256]; /* tables, the last one last */
	unsigned n_cleared;
};

/* As bf_switchd maps its own. */
struct outcome {
	grpc_status_code code;
	char text[256];
};

/* ---- bfrt_tables.c: the schema, and the entries of its tables ---- */

/* Returns false, for the caller to return. */
__attribute__((format(printf, 3, 4))) bool
bfrt_refuse(struct outcome *outcome, grpc_status_code code, const char *format, ...);

#define WRONG(...)   bfrt_refuse(outcome, GRPC_STATUS_INVALID_ARGUMENT, __VA_ARGS__)
#define MISSING(...) bfrt_refuse(outcome, GRPC_STATUS_NOT_FOUND, __VA_ARGS__)

const json_t *bfrt_by_id(const json_t *array, uint32_t id);
const char *bfrt_text_of(const json_t *object, const char *member);
const json_t *bfrt_table_of(const struct bfrt_server *server, uint32_t id);
const json_t *bfrt_table_named(const struct bfrt_server *server, const char *name);
uint32_t bfrt_id_of(const json_t *object);
unsigned bfrt_bits_of(const json_t *field);
bool bfrt_is_type(const json_t *table, const char *type);
bool bfrt_is_indexed(const json_t *table);
uint64_t bfrt_number_in(const uint8_t bytes[BFRT_BYTES]);
bool bfrt_take_keys(const json_t *table, const BfrtProto__TableKey *key, struct bfrt_entry *entry,
		    struct outcome *outcome);
struct bfrt_entry *bfrt_find_entry(struct bfrt_server *server, const struct bfrt_entry *wanted);
struct cell *bfrt_cell_of(struct bfrt_server *server, uint32_t table_id, uint32_t index);
const struct bfrt_entry *bfrt_numbered(struct bfrt_server *server, uint32_t table_id, uint64_t key);
bool bfrt_update_entry(struct bfrt_server *server, BfrtProto__Update__Type type,
		       const BfrtProto__TableEntry *message, struct outcome *outcome);

/* ---- bfrt_requests.c: requests, and their answers ---- */

struct client *bfrt_client_of(struct bfrt_server *server, uint32_t id);
grpc_status_code bfrt_do_write(struct bfrt_server *server, const BfrtProto__WriteRequest *request,
			       Google__Rpc__Status *status, struct outcome *outcome);
grpc_status_code bfrt_do_read(struct bfrt_server *server, const BfrtProto__ReadRequest *request,
			      BfrtProto__ReadResponse *response, Google__Rpc__Status *status,
			      struct outcome *outcome);
bool bfrt_do_bind(struct bfrt_server *server,
		  const BfrtProto__SetForwardingPipelineConfigRequest *request,
		  struct outcome *outcome);
void bfrt_get_programs(struct bfrt_server *server,
		       BfrtProto__GetForwardingPipelineConfigResponse *response);

#endif
