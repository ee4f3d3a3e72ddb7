/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank looks for its switch: which address to connect to, and when; where to join; and the
 * outcome. Sans I/O: the driver does what sml_search_next() asks for, reports the results, and
 * comes back at sml_search_deadline().
 *
 * One address:
 *
 *	          connect               connected                admission begins
 *	IDLE ---------------> CONNECTING --------------> WAITING ----------------> TAKEN
 *	  ^                       |                         |                        |
 *	  +--- failed, with a reason: tried again after a pause ----------------------+
 *
 * A job begins at the first address of the list that answers: addresses of one name are tried as in
 * RFC 8305, and the next name only after the first one had time for a retransmission, so that all
 * ranks choose the same switch.
 *
 * A job that resumes joins at every switch that it reaches, one after the other while ranks are
 * missing. The switch that all ranks have joined begins the admission, and the ranks leave all
 * others, which does not harm those. So no rank can wait at one switch while another waits
 * elsewhere. If a switch cannot serve the job for any reason, the ranks try the others, until the
 * deadline; then the error lists all of them. A switch that began but could not continue (its UDP
 * is blocked, its lanes are too few) comes last from then on.
 *
 * A rank may have died with the switch, and then nobody has seen it. All live ranks lose the switch
 * within their heartbeat or a little more, and come to each switch that they reach. So a rank that
 * no switch has seen for two of the job's longest heartbeats and 2 seconds is given up. Only the
 * time counts in which a switch has said, every second, that the rank is missing: not the time
 * between two switches, or two lives of one.
 *
 * The invariant: at most one address is taken, and while one is, no other is live.
 */
#ifndef SML_JOB_RANK_SEARCH_H
#define SML_JOB_RANK_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/common/ranks.h"

#define SML_SEARCH_MAX	  16
#define SML_REASON_LENGTH 200
#define SML_SEARCH_NO_ANSWER                                                                       \
	"no answer: is the host up, and does a firewall let the TCP port pass? (SWITCHML_PORTS "   \
	"bounds a rank's ports)"
#define SML_SEARCH_SILENT "it accepts connections, but says nothing: is it frozen?"

enum sml_search_state {
	SML_SEARCH_IDLE,
	SML_SEARCH_CONNECTING,
	SML_SEARCH_WAITING, /* joined; not all ranks are there */
	SML_SEARCH_TAKEN    /* all ranks are there, and the switch has begun with them */
};

enum sml_search_verb {
	SML_SEARCH_CONNECT,
	SML_SEARCH_JOIN, /* it is connected: join there */
	SML_SEARCH_CLOSE
};

struct sml_search_action {
	enum sml_search_verb verb;
	unsigned address;
};

/* Who looks for what. */
enum sml_search_kind {
	SML_SEARCH_SWITCH,   /* a job begins */
	SML_SEARCH_RANK_0,   /* likewise, and rank 0 may come later */
	SML_SEARCH_LISTENER, /* likewise, and rank 0 has listened before */
	SML_SEARCH_NEXT,     /* a job has lost its switch */
};

/* How one of them goes. */
struct sml_search_policy {
	const char *what;    /* it looks for, in texts */
	const char *refused; /* what a refused connection may mean */
	bool joins;   /* wherever a switch answers, until one has all ranks; else the first is it */
	bool retries; /* until the deadline; else each address is tried once */
	bool refusal_ends;   /* it, for that address */
	unsigned stagger_ms; /* until another switch is tried beside one that does not answer */
	unsigned pause_ms, pause_max_ms; /* between tries of one address: it doubles */
	/*
	 * If what was found is lost before the job runs: for how long it is looked for again (0:
	 * until the deadline), and the pause before that.
	 */
	unsigned again_ms, again_pause_ms;
};

extern const struct sml_search_policy sml_search_policies[];

struct sml_search_config {
	enum sml_search_kind kind;
	const char *const *names; /* of the addresses, for texts */
	unsigned n_addresses;
	uint8_t switches[SML_SEARCH_MAX]; /* the switch that each address belongs to */
	unsigned first;			  /* the address to begin with */
	uint64_t deadline_ns;
	/*
	 * A rank that has come to no switch for so long counts as dead, although no switch is left
	 * that has seen it die. 0 if never, because it may also have left.
	 */
	uint64_t absence_ns;
};

struct sml_search_try {
	enum sml_search_state state;
	bool to_join, to_close;
	uint64_t since_ns;	  /* since when it is in this state */
	uint64_t started_ns;	  /* when it was tried last; 0 if never */
	uint64_t again_ns;	  /* not before that, while another one is live */
	uint64_t soon_ns;	  /* not before that at all */
	unsigned n_reports;	  /* messages that say who is missing */
	uint64_t told_ns;	  /* when the last of them came */
	struct sml_ranks missing; /* at the last message */
	unsigned n_more;	  /* missing, too, but not named */
	unsigned n_failures, n_bad;
	int error; /* the last; 0 if not tried */
	char reason[SML_REASON_LENGTH];
	/* Why another rank cannot join there, whatever this rank's own tries came to; "": it can */
	char refused[SML_REASON_LENGTH];
};

enum sml_search_outcome {
	SML_SEARCH_GOES_ON,
	SML_SEARCH_FOUND,
	SML_SEARCH_LEFT, /* no switch is needed any more */
	SML_SEARCH_FAILED
};

struct sml_search {
	struct sml_search_config config;
	const struct sml_search_policy *policy;
	struct sml_search_try tries[SML_SEARCH_MAX];
	enum sml_search_outcome outcome;
	unsigned found; /* the address */
	int error;	/* FAILED: why, and the details */
	int fatal;	/* the address whose message ended it, or -1 */
	/*
	 * The ranks that each message has named so far, from any switch; and for how long, without
	 * the times in which no switch has said so again.
	 */
	struct sml_ranks absent;
	uint64_t absent_ns, absent_reported_ns;
	bool judges; /* it has ended because of them: the switches are to tell the other ranks */
};

/*
 * For config.first: which address a rank that begins tries after this one, where it has lost a
 * switch, or been released for lack of other ranks. It waits at one switch at a time. Ranks that
 * have lost their switch at different times could follow each other through the list forever. So
 * in each round, a rank tries each address once more often than in the round before, and those that
 * are behind catch up. n_lost: how often that has happened, with this time.
 */
static inline unsigned sml_search_begin_after(unsigned address, unsigned n_addresses,
					      unsigned n_lost)
{
	bool moves_on = n_lost % (1 + n_lost / n_addresses) == 0;

	return (address + moves_on) % n_addresses;
}

/*
 * For config.absence_ns: twice as long as the ranks may take to miss their switch, and to come.
 * heartbeat_ms: the longest of the job, because each rank misses its switch after its own.
 */
static inline uint64_t sml_search_absence_ns(uint32_t heartbeat_ms)
{
	return (2ull * heartbeat_ms + 2000) * 1000000;
}

/* The config's names must live as long. */
void sml_search_init(struct sml_search *search, const struct sml_search_config *config,
		     uint64_t now_ns);

/*
 * Writes the next action. Returns false if there is nothing to do until the deadline or the next
 * report.
 */
bool sml_search_next(struct sml_search *search, uint64_t now_ns, struct sml_search_action *action);

/* UINT64_MAX: none. */
uint64_t sml_search_deadline(const struct sml_search *search);

/* ---- what happened; ignored for an address that is no longer live ---- */

void sml_search_connected(struct sml_search *search, unsigned address, uint64_t now_ns);

/*
 * The switch has said who is missing, in its n-th message about that, and why it refused the last
 * of them that tried ("": none did). If that is enough to count some ranks as dead, the search
 * ends.
 */
void sml_search_missing(struct sml_search *search, unsigned address, const struct sml_ranks *ranks,
			unsigned n_more, const char *refused, unsigned n_reports, uint64_t now_ns);

/* The switch has begun with all ranks: close the others. */
void sml_search_began(struct sml_search *search, unsigned address, uint64_t now_ns);

/* It has started the job: it is found. */
void sml_search_started(struct sml_search *search, unsigned address);

/* The switch has let this rank leave, because no rank wants to continue: close all. */
void sml_search_left(struct sml_search *search, unsigned address);

/*
 * The attempt at this address has failed, and the driver has closed it. error is of enum sml_error,
 * or -errno. While a job resumes, an error that says that a rank has died or that the job was
 * aborted ends the search.
 */
void sml_search_failed(struct sml_search *search, unsigned address, int error, const char *reason,
		       uint64_t now_ns);

/*
 * Writes a list of all switches, each with the reason of its last failure, or with its state. Long
 * reasons are cut, so that no switch is left out.
 */
void sml_search_report(const struct sml_search *search, uint64_t now_ns, char *text, size_t bytes);

#endif
