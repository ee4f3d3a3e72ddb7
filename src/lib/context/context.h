/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context: one rank's place in one job.
 *
 *	caller's threads      sml_allreduce() ...
 *	      | submit_lock: gives each call its place in the streams
 *	      v
 *	threads (threads.h)       workers <-> transports <-> switches
 *	stripes                one per switch: control connection, workers
 *
 * A failure has three steps, and each happens exactly once: `error` is set (no more calls are
 * accepted), every thread stops (no thread accesses the application's buffers any more), and the
 * text is completed and recorded. Waiters return only after that.
 */
#ifndef SML_LIB_CONTEXT_H
#define SML_LIB_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "core/tensor.h"
#include "core/wire.h"
#include "lib/control/client.h"
#include "lib/control/endpoints.h"
#include "lib/control/finder.h"
#include "lib/diagnose/diagnose.h"
#include "lib/host/meet.h"
#include "lib/host/slots.h"
#include "lib/progress/line.h"
#include "lib/progress/request.h"
#include "lib/progress/threads.h"
#include "lib/settings/notice.h"
#include "lib/transport/transport.h"
#include "switch/switch.h"

struct sml_context;
struct sml_trace;

/* ---- a trace, if SWITCHML_RECORD asks for one (tracing.c) ---- */

struct sml_tracing {
	int fd;	    /* of the file; -1 if there is no trace */
	char *path; /* its name, for texts */
	struct sml_trace *traces[SML_MAX_SHARDS];
	unsigned n;
};

void sml_tracing_init(struct sml_tracing *tracing);

/* Creates the file. Returns 0 or a negative error, and sets the error text. */
int sml_tracing_open(struct sml_context *context);

/* Room for another thread's events. Returns 0 or a negative error, and sets the error text. */
int sml_tracing_add_thread(struct sml_context *context);

/* Write the file, and free everything. Call this when no thread runs any more. */
void sml_tracing_fini(struct sml_context *context);

/*
 * ---- what a job was used for (context.c) ----
 *
 * For the line at its end: the bytes of its calls, what a ring would have sent for them, and for
 * how long any call was under way.
 *
 * The one rule of in_progress: a call counts before any thread may complete it, and since_ns is set
 * by the call that finds no other one under way.
 */

#define SML_ELSEWHERE_BYTES 32

struct sml_usage {
	uint64_t opened_ns;
	/* Of whoever submits: under the submit lock. */
	uint64_t bytes, ring_bytes;
	/* Atomic. */
	uint64_t in_progress, since_ns, busy_ns;
	/* Calls that were made elsewhere. Under the context's lock. */
	uint64_t n_elsewhere;
	char elsewhere[SML_ELSEWHERE_BYTES];
};

/* A call of n_ranks ranks is submitted, before a thread gets it. */
void sml_usage_begin(struct sml_usage *usage, const struct sml_tensor_spec *spec, unsigned n_ranks,
		     uint64_t now_ns);

/* Note that n calls are done. */
void sml_usage_end(struct sml_usage *usage, uint64_t n);

/* For how long a call was under way, until now. */
uint64_t sml_usage_busy_ns(const struct sml_usage *usage, uint64_t now_ns);

/*
 * ---- counters in a file for Prometheus' node exporter (counters.c) ----
 *
 * SWITCHML_RECORD asks for it. A thread writes it, so a disk that hangs delays nothing but
 * sml_close().
 */

struct sml_metrics_file {
	char *path; /* NULL if there is none */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool runs, stops; /* stops: under the lock */
	/* Of the context, among those of the process that have a file; 0 if it has none. */
	unsigned number;
};

void sml_metrics_file_init(struct sml_metrics_file *file);

/*
 * The context runs: write the file from now on, if one is set. Returns 0 or a negative error, and
 * sets the error text.
 */
int sml_metrics_file_start(struct sml_context *context);

/* Remove the file. Before the job's shards are freed. Does nothing if it was not started. */
void sml_metrics_file_stop(struct sml_metrics_file *file);

/* Once it has been stopped. */
void sml_metrics_file_fini(struct sml_metrics_file *file);

/*
 * ---- a stripe ----
 *
 * One stripe of a job, as a rank sees it: a switch, the control connection to
 * it, and the workers that use its slots. Chunk c of a stream belongs to stripe
 * c mod n_stripes, and stripes are independent: each has its own epoch, and if
 * its switch dies, only this stripe waits for another one (failover.c).
 */

struct sml_stripe {
	struct sml_context *context;
	uint8_t index;
	struct sml_endpoints *endpoints; /* the newest */
	struct sml_reached connection;
	const char *name;	      /* atomic: its current switch, for texts */
	char own_name[96];	      /* of a rank that embeds it */
	struct sml_control *control;  /* atomic once there are threads */
	struct sml_control **retired; /* of switches that died, while calls may use them */
	unsigned n_retired;
	struct sml_admission admission;
	struct sml_admission began; /* the last one that it was ready for and that resumes no job */
	struct sml_shard *shards[SML_MAX_SHARDS];
	unsigned n_shards;

	/* While it opens; in its own thread if there are several stripes. */
	struct sml_transport *transports[SML_MAX_SHARDS]; /* NULL once lines have them */
	uint16_t lanes;					  /* that its switch starts with */
	struct sml_host_listener listener;		  /* for the ranks of this host */
	bool has_met;					  /* or has tried to; that is done once */
	struct sml_host *met; /* memory that this rank shares; the others may not */
	/* It has said Ready, and whether it shares memory: other ranks may have been told to start.
	 */
	bool may_have_begun, reported_shared;
	bool path_is_narrow; /* probes that its ends take were lost, and shorter ones were not */
	unsigned n_lost;     /* switches */
	/* Under the submit lock: see sml_submit_hold(). */
	bool holds_floats, holds_exact;
	uint64_t deadline_ns;
	pthread_t opener;
	int error; /* of opening, and how it was told */
	char text[SML_TEXT_BYTES];

	/* Its switch has died. Under the context's lock, except `park`. */
	bool park; /* atomic: shards must freeze, and no longer belong to their threads */
	unsigned n_parked;
	struct {
		pthread_t thread;
		bool started, closing;
		bool early; /* it was lost after the start, and before the context runs */
		bool left;  /* no switch was needed any more, because all ranks have asked to leave
			     */
		uint64_t leaves_ns; /* atomic: since then this rank waits only to leave; 0 if not */
		char lost[SML_TEXT_BYTES];   /* which switch was lost, and how */
		char tried[SML_TRIED_BYTES]; /* the other switches, and their results */
	} failover;
};

/* Its switch's address, for texts. */
static inline const char *sml_stripe_name(const struct sml_stripe *stripe)
{
	const char *name = __atomic_load_n(&stripe->name, __ATOMIC_ACQUIRE);

	return name ? name : "not reached";
}

/* ---- the context ---- */

/* See membership.h, hosts.c. */
struct sml_hosts {
	char machine[SML_HOST_MACHINE_BYTES]; /* "": this rank shares no memory */
	struct sml_ranks ranks;		      /* of this host, which share memory; none: none do */
	/* While the stripes open: what their threads have found. Under the context's lock. */
	struct {
		unsigned n_meetings, n_stripes; /* there will be; have found something */
		struct sml_ranks ranks;		/* of this host, as the first of them was told */
		bool apart;			/* for good: these ranks do not share memory */
		int fd; /* an eventfd, for the threads that wait; -1 if none does */
	} found;
};

/* For notices (membership.h): a call that waits. */
struct sml_late {
	pthread_mutex_t lock;
	struct sml_notice notice;
	bool waits; /* then `call` is as it was when it was seen first like this */
	struct sml_call_in_progress call;
	uint64_t asked_ns; /* 0 if the switches are not asked now */
};

/*
 * Where ranks have the slots: those that contribute to them, in the order of their numbers there.
 * All ranks, or the first ones of the hosts, if those of each host share memory. n: 0 with
 * switches.
 */
struct sml_senders {
	uint8_t n, own, rank[SML_MAX_STRIPES]; /* own: the one that sends for this rank */
};

/*
 * The form of a job: who has its slots. The settings choose between switches and ranks; ranks that
 * find each other on one host go on with its memory. With switches and ranks, those of a host may
 * share memory besides, and contribute as one (lib/context/hosts.c).
 */
struct sml_job_form {
	/*
	 * Each stripe has a switch, which can be replaced, and a control connection to it.
	 * Otherwise, stripe 0's connection, to rank 0, is for all of them.
	 */
	bool has_switches;
	enum sml_job_path path;		     /* where numbers are added, without host groups */
	const struct sml_listener *listener; /* at its control connections' other end */
	/* Makes the stripes, and the listener, if this process has it. As open. */
	int (*begin)(struct sml_context *context, uint64_t deadline_ns);
	/* The listener's addresses now. Returns their number; or as those below. */
	int (*find)(const struct sml_stripe *stripe, struct sml_endpoint *endpoints);
	/* By the stripe's connection. resumption: of what this rank was ready for, or NULL. */
	int (*join)(struct sml_stripe *stripe, const struct sml_resumption *resumption,
		    uint64_t deadline_ns);
	/*
	 * The stripe has joined: prepares what else carries it; NULL: nothing. Returns 0 or a
	 * negative error, and sets the error text.
	 */
	int (*open)(struct sml_stripe *stripe);
	/* All stripes have opened. As open. */
	int (*ready)(struct sml_context *context);
};

struct sml_context {
	pid_t owner; /* a child made by fork() is another process */
	struct sml_settings settings;
	const struct sml_job_form *form; /* of the job */
	/* Where ranks embed the stripes: lib/context/embedded.c. */
	struct sml_switch *embedded; /* rank 0's control port; NULL if this process has none */
	char listen_address[INET6_ADDRSTRLEN]; /* of embedded; "": all addresses of this host */
	struct sml_peers *peers;	       /* NULL if there are switches */
	struct sml_senders senders;
	struct sml_hosts hosts;
	struct sml_stripe *stripes;
	unsigned n_stripes;
	struct sml_threads threads; /* the threads, and the embedded stripe */
	struct sml_shape shape;

	/* Submission: the order of calls. */
	pthread_mutex_t submit_lock;
	pthread_cond_t released; /* a stripe no longer holds calls: sml_submit_decide() */
	struct sml_sequence sequence;
	bool sent_floats; /* a call of this job has sent floats as such, or will */
	bool adds_parts;  /* leaves or hosts round sums of parts of the ranks, or have done so */
	bool asked_exact; /* a call has asked for exact sums, where none did */
	struct sml_history history;
	struct sml_requests requests;
	struct sml_usage usage;
	struct sml_late late;

	/* Completion and failure. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a tensor is done, a shard is parked, or the text is complete */
	int error;		/* atomic; 0 if there is none */
	bool error_reported;	/* the text is complete */
	char text[SML_TEXT_BYTES];
	/*
	 * For programs with their own event loop, an eventfd that becomes readable when calls have
	 * ended; -1 if nobody has asked for it. It is made and written only under the lock. So a
	 * program that opens it and then tests its requests misses no call that ends: a thread that
	 * found none had released the lock before that, and its tensor was already done.
	 */
	int notifier_fd;
	struct sml_recorder recorder;
	struct sml_tracing tracing;
	struct sml_metrics_file metrics_file;
	/* What its switches are told of the job's end, once they are; error 0: nothing yet. */
	struct sml_abort_message abort_message;
	bool running; /* it has opened; before that, no failover begins (failover.c) */

	/* From one membership to the next: lib/context/reconfigure.c. */
	uint32_t n_inside;	    /* atomic: calls that may use the job's parts */
	bool changing;		    /* atomic: no other call may */
	int cancelled;		    /* atomic: sml_abort() ends the opening of the next job */
	struct sml_counters before; /* of earlier memberships */
	/* Where the switch decides. */
	bool decided;	      /* under the lock: this membership's rank and name are known */
	unsigned last_switch; /* the address that stripe 0 had last */
	int *previous;	      /* of each rank, its previous one; -1 if none. NULL if unknown */
};

/*
 * A call begins, or ends. Returns false if another thread is about to replace the job: then this
 * call must not use the job's threads, stripes and settings, and must not end. Between the two,
 * they do not change. A thread that makes one call after the other cannot delay the change, because
 * its next call is refused.
 */
bool sml_context_enter(struct sml_context *context);
void sml_context_exit(struct sml_context *context);

/*
 * The same for a call of the program that only reads. Returns 0, and the call ends with
 * sml_context_end_reading(); or SML_ERROR_FORKED or SML_ERROR_CLOSED.
 */
int sml_context_begin_reading(const struct sml_context *context);
void sml_context_end_reading(const struct sml_context *context);

/*
 * The same for a call that waits for a request, and may be the one that notices its deadline: it is
 * inside in any case, and ends with sml_context_exit(). False: as above.
 */
bool sml_context_enter_to_wait(struct sml_context *context);

/* Counters of this membership: of all its stripes, or of one. For threads of the job, too. */
void sml_context_count(const struct sml_context *context, struct sml_counters *counters);
void sml_context_count_stripe(const struct sml_context *context, unsigned stripe,
			      struct sml_counters *counters);

/* The membership ends: add its counters to those of earlier memberships. */
void sml_context_keep_counters(struct sml_context *context);

/*
 * The job has failed here: see above. False if it had failed before, and that error stays. Any
 * thread except a progress thread.
 */
bool sml_context_fail(struct sml_context *context, int error, const char *text);

/* The request's deadline has passed: fail the context, and report that to the other ranks. */
void sml_context_time_out(struct sml_context *context, const struct sml_request *request);

/* Returns 0, or the context's error; SML_ERROR_FORKED in a child. Never waits. */
int sml_context_check(const struct sml_context *context);

/* Refuse a call, and keep the context usable. Sets the error text. Returns error. */
__attribute__((format(printf, 3, 4))) int sml_context_refuse(struct sml_context *context, int error,
							     const char *format, ...);

/*
 * Whether the context has opened. Before that, a control's thread must not access shards and
 * threads.
 */
bool sml_context_is_running(struct sml_context *context);

/*
 * Report to every switch, and so to every rank, that the job has failed here. kinds: of enum
 * sml_abort_kind, or 0.
 */
void sml_context_abort_job(struct sml_context *context, int error, const char *text,
			   unsigned kinds);

/*
 * What a switch at which the job was about to go on is told: sml_context_abort_job() may not have
 * found it. False: the job has not failed here, and nothing is told.
 */
bool sml_context_get_abort_message(struct sml_context *context, struct sml_abort_message *message);

/* The program ends the job, for all ranks. Returns 0, or the error that the job already has. */
int sml_context_abort(struct sml_context *context, const char *reason);

/*
 * This rank leaves its job without an error of its own: as sml_context_fail(), but nothing is
 * logged as an error or recorded. kinds: of enum sml_abort_kind, for a switch that is found later.
 */
bool sml_context_give_up(struct sml_context *context, int error, const char *text, unsigned kinds);

/*
 * A switch has reported that the job has failed. The failure is passed to the others before this
 * rank leaves, because they would only see that it left. planned: it is no failure, but the members
 * change. Called in a control's thread.
 */
void sml_context_fail_remote(struct sml_context *context, int error, const char *text,
			     bool planned);

/* Ask all switches what their slots wait for. Returns at once. */
void sml_context_ask(struct sml_context *context);

/*
 * What has been answered for each stripe, and what is known here. failed: the job has, and its
 * threads have stopped; then all are asked, and answers awaited until until_ns. 0: only what came
 * with the failure counts.
 */
void sml_context_collect(struct sml_context *context, uint64_t until_ns, bool failed,
			 struct sml_stall_reports *reports);

/* The stripe whose control connection tells of this one. */
unsigned sml_context_source(const struct sml_context *context, unsigned stripe);

/* A stripe that is waiting for another switch; NULL if there is none. */
const struct sml_stripe *sml_context_find_parked(const struct sml_context *context);

/* Note that n calls are done. Progress threads call this, too. */
void sml_context_tensor_done(struct sml_context *context, uint64_t n);

/* The notifier, which is readable at first, or -errno. The lock is held, also in the next. */
int sml_context_open_notifier(struct sml_context *context);

/* If it was opened, it is readable. Never waits. */
void sml_context_notify(const struct sml_context *context);

/*
 * While there are calls in progress, wake a program that only watches the notifier, so that it
 * notices their deadlines. Called about once a second.
 */
void sml_context_remind(struct sml_context *context);

/*
 * A thread has seen that its shard is not in the state that the stripe wants (it is frozen, if it
 * must be parked). Checks again under the lock, which also guards the stripe's wish: a thread that
 * was suspended after its check must not take a worker that the next failover has taken. True: the
 * shard is now parked, or belongs to the thread again, and is counted.
 */
bool sml_context_park_shard(struct sml_context *context, struct sml_shard *shard);

/*
 * The control of the stripe's switch, NULL if it has none yet: a failover that finds another switch
 * keeps it until it is released. NULL may be released, too.
 */
struct sml_control *sml_context_hold_control(struct sml_context *context, unsigned stripe);
void sml_context_release_control(struct sml_context *context, struct sml_control *control);

/*
 * ---- making calls (submit.c) ----
 *
 * From a checked call to a tensor in progress.
 */

/* A call that becomes a tensor. */
struct sml_order {
	struct sml_tensor_spec spec;
	const char *name; /* or NULL */
	bool gathers;	  /* as struct sml_call */
	bool waits;	  /* the caller waits for it next */
};

/*
 * Gives the call its place in the order of calls, and passes it to every shard.
 * Returns 0 and *submitted, for sml_wait(); or an error.
 */
int sml_submit(struct sml_context *context, const struct sml_order *order,
	       struct sml_request **submitted);

/*
 * A call will send floats as such. Returns false if switches of the job add none; after true, the
 * job moves to none of those. Only then, context->shape.floats stays as it is, and may be read.
 * Waits while a stripe may be moving to such a switch.
 */
bool sml_submit_fix_floats(struct sml_context *context);

/*
 * A call that will send floats asks for exact sums. Returns whether leaves or hosts round parts of
 * them; after false, the job moves to no such switch. Waits while a stripe may be moving to one.
 */
bool sml_submit_fix_parts(struct sml_context *context);

/*
 * May the stripe move to where it is admitted? Returns NULL, or why it cannot: there, floats are
 * not added, or their parts are rounded, and calls were promised something else. Otherwise, calls
 * that depend on that wait until sml_submit_decide(), because other ranks may know already.
 */
const char *sml_submit_hold(struct sml_stripe *stripe);

/* The stripe has moved to where it is admitted, or given up. Later calls travel as there. */
void sml_submit_decide(struct sml_stripe *stripe, bool moved);

/* Where other ranks may not know what this one has decided, it reports that. */
void sml_submit_report(struct sml_context *context, struct sml_resumption *resumption);

/*
 * ---- waiting for calls (wait.c) ----
 *
 * A wait ends with the first of: a request is done, the context has failed (and no thread accesses
 * a buffer any more), the waiter's own time is over (the calls go on), or a request's deadline,
 * which fails the context.
 */

#define SML_WAIT_FOREVER UINT64_MAX

/*
 * Wait until one of n requests is done, at most until until_ns. Some may be NULL, but not all.
 * Returns 0 and the first one that is done as *index; or the context's error and any of them; then
 * the application owns its buffers again. -EAGAIN: until_ns has passed. until_ns 0: only looks.
 */
int sml_context_wait_any(struct sml_context *context, struct sml_request *const *requests, size_t n,
			 uint64_t until_ns, size_t *index);

#endif
