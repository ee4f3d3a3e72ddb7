/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs for tests: the ranks are threads of this process, each with its own context. They
 * record failures, and the test checks these when all ranks have ended.
 */
#ifndef SML_TESTS_RANKS_H
#define SML_TESTS_RANKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "switch/switch.h"
#include "switchml.h"

struct rank;
struct sml_dataplane_operations;

struct job {
	int n_ranks;
	const char *name;		     /* NULL: "test" */
	const char *switch_address;	     /* NULL: embedded */
	const char *const *switch_addresses; /* of each rank; NULL: all have the same one */
	const char *master_address;	     /* NULL: the default */
	const char *faults;
	const char *record;
	int threads;	    /* 0: 1 */
	int slots;	    /* 0: the switch chooses */
	int timeout_ms;	    /* 0: 60 s, which is longer than any stall of a busy machine */
	int heartbeat_ms;   /* 0: 20 s, likewise */
	int port;	    /* 0: find a free one */
	uint64_t elsewhere; /* bit r: rank r is in another process */
	uint64_t alone;	    /* bit r: rank r does not share memory, whatever host_group says */
	bool by_default;    /* with host_group: -1, which is the default, instead of 1 */
	bool host_group;    /* share memory: otherwise the ranks send packets, also on one host */
	/* NULL, or changes a rank's configuration. */
	void (*adjust)(struct sml_config *config, const struct job *job, int rank);
	void (*body)(struct rank *rank);
	/* NULL, or called instead where a context does not open; sml_error_text() says why. */
	void (*refused)(struct rank *rank, int error);
	void *argument;
	uint32_t *hash; /* NULL, or receives the hash of all ranks' results */
};

struct rank {
	const struct job *job;
	struct sml_context *context;
	int rank, n;
	int closed;	     /* result of sml_close() */
	uint32_t hash;	     /* hash of all results: must be the same on all ranks */
	char complaint[512]; /* the first check that failed; "" if none did */
};

/* Run a job whose ranks open a context, run the body and close. Assert that none complains. */
void run_job(const struct job *job);

/* Run several jobs at once. */
void run_jobs(struct job *jobs, unsigned n);

/* Run one rank of a job in this thread, for children. Returns 0 if it has no complaint. */
int run_rank(const struct job *job, int rank);

/*
 * A port without a listener, which a process gets only if it asks for it by number. A descriptor
 * holds the port until PORTS_HELD more have been requested.
 */
#define PORTS_HELD 16
int free_port(void);

/* A switch in this process, at this port (0: any), until the test ends; writes where. */
struct sml_switch *serve_at(int port, char address[64]);
/* At any port. */
struct sml_switch *serve_udp(char address[64]);
/* With a copy of this dataplane. */
struct sml_switch *serve_with(const struct sml_dataplane_operations *dataplane, char address[64]);
/* A switch in this process that adds only integers, as XDP and P4. */
struct sml_switch *serve_integers(char address[64]);
/* A leaf of that switch, which has accepted it. */
struct sml_switch *serve_leaf(const char *parent, char address[64]);
struct sml_switch *serve_leaf_with(const struct sml_dataplane_operations *dataplane,
				   const char *parent, char address[64]);
/* Two of any lanes, as two stripes: their list. */
void serve_two(char addresses[2][64], char list[130]);
/* It ends already now. */
void stop_serving(struct sml_switch *opened);

/* A switch in a process of its own, which a test can kill. Returns its number, and where it is. */
pid_t serve_in_child(struct sml_switch *(*begin)(char address[64]), char address[64]);

/* A configuration for the job. */
void configure(struct sml_config *config, const struct job *job, int rank);

__attribute__((format(printf, 2, 3))) void complain(struct rank *rank, const char *format, ...);

uint64_t now_ms(void);

/* Wait until the rank's context has failed, for any reason. */
void wait_until_told(struct rank *rank);

#define CHECK(rank, condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			complain(rank, "%s:%d: %s: %s", __FILE__, __LINE__, #condition,            \
				 sml_error_text((rank)->context));                                 \
			return;                                                                    \
		}                                                                                  \
	} while (0)

/* Assert that this is the last error, and that its text has this part. Needs <string.h>. */
#define CHECK_ERROR(rank, result, error, part)                                                     \
	do {                                                                                       \
		int got = (result);                                                                \
		if (got != (error) || !strstr(sml_error_text((rank)->context), part)) {            \
			complain(rank, "%s:%d: %d, not %d; \"%s\" should say \"%s\"", __FILE__,    \
				 __LINE__, got, (int)(error), sml_error_text((rank)->context),     \
				 part);                                                            \
			return;                                                                    \
		}                                                                                  \
	} while (0)

#endif
