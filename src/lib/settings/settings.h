/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings of a context: a checked struct sml_config, with its own strings, and what follows
 * from it. config.c fills a struct sml_config from the environment; settings.c makes the settings.
 */
#ifndef SML_LIB_SETTINGS_H
#define SML_LIB_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "control/tls.h"
#include "core/wire.h"
#include "job/rank/session.h"
#include "net/port_range.h"
#include "switchml.h"

#define SML_MAX_JOB_NAME  127
#define SML_PORTS_ALLOWED "FIRST-LAST, two ports from 1 to 65535, as in 30000-30063"
/* The head stream has a quarter as many slots as the data stream, within these limits. */
#define SML_HEAD_SLOTS_MIN 8
#define SML_HEAD_SLOTS_MAX 64
#define SML_DATA_SLOTS_MAX (SML_MAX_SLOTS - SML_HEAD_SLOTS_MAX)

struct sml_faults {
	uint32_t drop, duplicate, reorder; /* in packets per million */
	/* Turned off, to measure its benefit. */
	bool no_tickets, no_fast_retransmit;
	uint64_t seed;
};

enum sml_record { SML_RECORD_FAILURE, SML_RECORD_METRICS, SML_RECORD_TRACE, SML_RECORDS };

/* A job that has begun, for the one that follows it. */
struct sml_past_job {
	char *name; /* NULL if there is none */
	uint32_t n_ranks;
	uint32_t changes; /* how often the members had changed before it */
};

struct sml_settings {
	/*
	 * The program's, with copies of its texts. Those that are empty are NULL, and so are the
	 * secret, and switch_address if ranks embed the switch. job,
	 * master_address, master_port and interrupt become those of each membership, whose rank and
	 * world_size stand below. timeout_ms is atomic: sml_timeout_ms().
	 */
	struct sml_config config;
	bool every_rank;	  /* each rank embeds a stripe, also on one host */
	uint8_t local_stripes;	  /* enough for the cores of one host */
	char *files[SML_RECORDS]; /* paths for this rank; NULL if it records no such thing */
	uint16_t rank, world_size;
	struct sml_past_job
		follows;	   /* the job of the last membership that began before this one, */
	struct sml_past_job begun; /* and this one's, once it has begun */
	/* The switch decides on the members: what it needs to know, and what it may do. */
	bool asks;
	const char *line; /* what all memberships of the job are called by those who wait to join */
	struct sml_past_ranks past;
	uint64_t process;		       /* drawn: Join.process */
	uint64_t stripe_tags[SML_MAX_STRIPES]; /* of the last job that ran; 0: none */
	uint32_t request_min_ranks, request_max_ranks, request_wait_ms;
	uint64_t asked_ns;	     /* when sml_reconfigure() began to ask */
	struct sml_port_range ports; /* that this rank may open */
	uint32_t join_timeout_ms;    /* until this membership has begun */
	uint16_t head_slots, data_slots;
	uint8_t threads;
	char threads_why[64];
	struct sml_faults faults;
	struct sml_tls_files tls_files;
	struct sml_key job_key; /* where tls_files has one */
	struct sml_tls *tls;	/* NULL if control connections are plain */
	/*
	 * The first rank of this host, as far as is known, or of the job: for what all would log.
	 */
	bool speaks;
	struct sml_log log;
};

static inline uint32_t sml_timeout_ms(const struct sml_settings *settings)
{
	return (uint32_t)__atomic_load_n(&settings->config.timeout_ms, __ATOMIC_RELAXED);
}

/*
 * Returns SML_ERROR_CONFIG and sets the error text if the environment has only a rank, or only a
 * world size, and the program has not set the other. Otherwise returns 0.
 */
int sml_config_check_ranks(const struct sml_config *config);

/* That, and each number's bounds. Returns 0 or an error, and sets the error text. */
int sml_config_check(const struct sml_config *config);

/*
 * Each text becomes a copy, except the secret, and an empty one NULL. Returns 0; or -ENOMEM, and
 * sets the error text.
 */
int sml_config_own(struct sml_config *config);

/* Frees the copies, also after -ENOMEM. */
void sml_config_free(struct sml_config *config);

/* Returns 0; or SML_ERROR_CONFIG or -ENOMEM, and sets the error text. */
int sml_settings_init(struct sml_settings *settings, const struct sml_config *given);

/*
 * Check whether these settings can become those of the next membership, all of whose members are
 * set, as in the public header. Returns 0; or -EINVAL, and sets the error text.
 */
int sml_settings_check_move(const struct sml_settings *settings,
			    const struct sml_membership *membership);

/*
 * Make them those of the next membership. Returns 0; or -ENOMEM or SML_ERROR_CONFIG (a file's
 * directory has gone), and sets the error text.
 */
int sml_settings_move(struct sml_settings *settings, const struct sml_membership *membership);

/* The switch has decided: as sml_settings_move(). */
int sml_settings_decide(struct sml_settings *settings, const struct sml_decided *decided);

/* This rank was admitted to the job of these settings; and it has begun, if that is known. */
void sml_settings_note_rank(struct sml_settings *settings, uint64_t tag, bool ran);

/*
 * The job of these settings has begun. Without memory for its name, the next membership follows
 * none: that is only shown to people.
 */
void sml_settings_note_begun(struct sml_settings *settings, uint32_t changes);

static inline bool sml_is_interrupted(const volatile int *interrupt)
{
	return interrupt && __atomic_load_n(interrupt, __ATOMIC_ACQUIRE) != 0;
}

/*
 * A process may have several contexts and jobs, at once or in turn, and the environment names one
 * file: the n-th one's has ".n" before its suffix, or, if it has another, at its end. The first
 * one's has not. The caller frees it; NULL if there is no memory.
 */
char *sml_path_of_nth(const char *path, unsigned n, const char *suffix);

/* Also after a failed init. */
void sml_settings_fini(struct sml_settings *settings);

/*
 * "drop=10000,duplicate=1000,reorder=1000,seed=7,tickets=0,fastretransmit=0".
 * Returns 0; or SML_ERROR_CONFIG, and sets the error text.
 */
int sml_faults_parse(struct sml_faults *faults, const char *text);

/* Ranks of this job on this machine, as the launcher says; 0 if unknown. */
int sml_launcher_local_size(void);

/*
 * Is this the first of the ranks that the launcher has started on this host? True as well if it
 * does not say: for what ranks of one host would all print alike.
 */
bool sml_launcher_is_first_here(void);

/*
 * The program's configuration as this library knows it: see base/sized.h. Returns 0, or
 * SML_ERROR_CONFIG and sets the error text.
 */
int sml_config_read(struct sml_config *own, const struct sml_config *given);

/*
 * mpirun does not say where rank 0 is. Has it started ranks on other hosts that would look for
 * rank 0 on their own, because master_address is still sml_config_init()'s default?
 */
bool sml_launcher_hides_rank_0(const struct sml_config *config);

#endif
