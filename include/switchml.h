/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switchml.h - all-reduce summed inside the network: the public interface.
 *
 * A *job* is a fixed group of `world_size` processes, its *ranks*. Each rank
 * opens a context, calls the same collectives in the same order, and closes it.
 * A switch computes the sums. It is a `switchml switch` daemon on the network,
 * several of them, or a part embedded in each rank's process. Some calls that
 * combine nothing are not here: all-to-all, gathers and scatters of different
 * counts, send and receive. MPI or the framework's own backend serves them,
 * and the bindings for MPI and PyTorch pass them on.
 *
 *	struct sml_context *job;
 *	if (sml_open(&job, NULL) < 0)
 *		errx(1, "%s", sml_error_text(NULL));
 *	sml_allreduce(job, gradient, gradient, n, SML_FLOAT32, SML_AVG, NULL, NULL);
 *	sml_close(job);
 *
 * Errors. Every call that can fail returns 0 or a negative number: -1 to -4095
 * is a negated errno, and lower numbers are from enum sml_error.
 * sml_error_text() returns a sentence that says what happened and what to do.
 * A call that was wrong itself fails with -EINVAL, and the job goes on. Any other
 * failed collective leaves its receive buffer undefined, and every later call
 * on that context fails with the same error. To form the job again, close the
 * context and open another one. To go on with the ranks that are left, call
 * sml_reconfigure().
 *
 * Time. No call waits longer than the context's timeout (struct sml_config),
 * but sml_open() also waits for the system's resolver.
 * sml_wait() can return earlier; the calls then go on.
 *
 * Threads. Several threads may use a context. The order of their calls is the
 * order of the collectives, and must be the same on all ranks. No other call on
 * a context may overlap its sml_open() or sml_close(). Calls may overlap
 * sml_reconfigure().
 *
 * Cancellation. pthread_cancel() does not end a thread inside a call, which may
 * hold locks: no function is a cancellation point, and the thread ends after the
 * call. sml_abort() ends the wait at once.
 *
 * Signals. The library's threads block them, because they belong to the
 * application. If the main thread has ended with pthread_exit(), and no other
 * thread of the application is left, one of the library's threads receives
 * signals after a second.
 *
 * Fork. In a child made by fork(), every call on one of the parent's contexts
 * fails with SML_ERROR_FORKED. The child may open its own contexts. It keeps
 * none of the parent's sockets, so the parent's job never waits for it.
 */
#ifndef SWITCHML_H
#define SWITCHML_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SML_VERSION_MAJOR  0
#define SML_VERSION_MINOR  1
#define SML_VERSION_PATCH  0
#define SML_VERSION_STRING "0.1.0"
/* Ascending: 0.1.0 is 1000, and 1.2.3 is 1002003. */
#define SML_VERSION_NUMBER                                                                         \
	(SML_VERSION_MAJOR * 1000000 + SML_VERSION_MINOR * 1000 + SML_VERSION_PATCH)

/*
 * Maximum number of ranks in a job. More than 64 need a tree of switches (switchml switch
 * --parent), in which each switch has at most 64 ranks and leaves of a job.
 */
#define SML_MAX_WORLD_SIZE 4096

#ifndef SML_API
#if defined(__GNUC__)
#define SML_API __attribute__((visibility("default")))
#else
#define SML_API
#endif
#endif

/*
 * SwitchML's errors, their names and short texts. sml_strerror() returns the
 * text. A test compares docs/errors.md with this list.
 */
#define SML_ERROR_LIST(X)                                                                          \
	X(-5001, SML_ERROR_CONFIG, "a setting is missing or wrong")                                \
	X(-5002, SML_ERROR_UNREACHABLE, "the switch cannot be reached")                            \
	X(-5003, SML_ERROR_REFUSED, "the switch refused the job")                                  \
	X(-5004, SML_ERROR_MISMATCH, "ranks disagree")                                             \
	X(-5005, SML_ERROR_RANK_DIED, "another rank of the job died")                              \
	X(-5006, SML_ERROR_SWITCH_DIED, "the connection to the switch ended")                      \
	X(-5007, SML_ERROR_TIMEOUT, "the deadline passed")                                         \
	X(-5008, SML_ERROR_ABORTED, "the job was aborted")                                         \
	X(-5009, SML_ERROR_CLOSED, "the context is closed or has left")                            \
	X(-5010, SML_ERROR_FORKED, "the context belongs to the parent process")                    \
	X(-5011, SML_ERROR_PROTOCOL, "the peer broke the protocol")                                \
	X(-5012, SML_ERROR_VERSION, "library and switch are of different versions")                \
	X(-5013, SML_ERROR_TLS, "TLS with the switch failed")

enum sml_error {
	SML_ERROR_NONE = 0,
#define SML_ERROR_ENUM(number, name, text) name = number,
	SML_ERROR_LIST(SML_ERROR_ENUM)
#undef SML_ERROR_ENUM
};

/* The type of a tensor's elements. The numbers are on the wire: never renumber. */
enum sml_type {
	SML_FLOAT32 = 0,
	SML_FLOAT16 = 1,  /* IEEE 754 binary16, as uint16_t in memory */
	SML_BFLOAT16 = 2, /* upper half of a float32, as uint16_t in memory */
	SML_INT32 = 3,
	SML_BYTE = 4, /* only for calls that copy, because it has no arithmetic */
	SML_FLOAT64 = 5,
	SML_INT64 = 6,
	SML_UINT8 = 7,
	SML_INT8 = 8,
	SML_INT16 = 9,
	SML_BOOL = 10 /* one byte, which is 0 or not 0; SUM and MAX are "or", and MIN is "and" */
};

/*
 * How elements are combined. SUM of integers wraps around at their own width. AVG of
 * int32 and int64 is the (wrapped) sum divided by the number of ranks, rounded toward
 * zero. AVG of narrower integers divides the exact sum. AVG of SML_BOOL does not exist.
 * MAX and MIN are exact for every type, and a NaN on any rank makes that element NaN.
 */
enum sml_op { SML_SUM = 0, SML_AVG = 1, SML_MAX = 2, SML_MIN = 3 };

/*
 * How a floating-point element travels: as it is (EXACT), or fixed point. docs/numbers.md says
 * more. SUM of integers is never rounded.
 *
 * INT32, INT16 and INT8 have one exponent for each block (256 neighbors with int32, else 64), so
 * the error is relative to the largest element of the block. With int32 it is
 * about that of a float32 sum for elements of similar size, but an element below
 * 2^-29 of the block's largest becomes 0. int16 halves the bytes and has errors of
 * about 2^-11 of the block's largest with 8 ranks.
 *
 * INT8 has a quarter of int32's bytes, and errors of 1 to 2 % of the sums' RMS where elements are
 * of similar size. It is for SUM and AVG of float32, float16 and bfloat16. If it is the context's
 * wire, calls of other types and operations travel as if it were not; if such a call asks for it in
 * its options, it fails with -EINVAL. A switch that does not round sums of narrow lanes (a P4
 * program in the staged form) refuses a job whose wire it is, and a call that asks for it there
 * fails with -EINVAL.
 *
 * DEFAULT is EXACT where all of the job's switches add floats: UDP switches, stripes in the ranks,
 * and shared memory. If one of them adds only integers (XDP, P4), float32, float16 and bfloat16 are
 * EXACT in vectors of at most 8 KiB, and if world_size elements have at most 12 bytes. In longer
 * vectors of more ranks, they travel as float64, with 63 bits below the largest of 64 neighbors (59
 * with more than 1,024 ranks).
 *
 * float64 travels with 63 bits below the block's largest exponent, whatever the context's
 * wire: the sum is exact for elements within 2^10 of the block's largest, and is rounded
 * once. A call that asks for int32 or int16 in its options gets that accuracy instead,
 * for a third or a sixth of the bytes. With more than 1,024 ranks, 63 becomes 59, and
 * 2^10 becomes 2^6.
 *
 * EXACT: floats travel as they are, and each element of the result is the exact SUM or AVG, rounded
 * once to the type. So an average of equal vectors changes no bit. A leaf of a tree, or a host of
 * several, rounds its part of the sum, too. At XDP and P4 switches, and for float64, every rank's
 * own bits travel to all ranks: each sends and receives world_size times the vector; that of a
 * reduce-scatter has the parts of all ranks. If a packet has no room for an element of every rank,
 * a call that asks for EXACT in its options fails with -EINVAL. If EXACT is the context's wire,
 * that call travels as int32, or as int64 if it is of float64.
 *
 * GRADIENT is for sums of gradients, in the options of a call. It is DEFAULT, except at XDP and P4
 * switches if DEFAULT is also the context's wire: there, it is int32 for float32, and int16 for
 * float16 and bfloat16. With int16, the error, relative to the RMS of the sums, is about that of a
 * ring that rounds each partial sum to the type, or smaller. If one of the switches does not round
 * sums (P4), it is int32 for float16, too, and for bfloat16 if there are more than SML_INT16_RANKS
 * ranks, or if one of the switches adds only int32 lanes.
 */
enum sml_wire {
	SML_WIRE_DEFAULT = 0,
	SML_WIRE_INT32 = 1,
	SML_WIRE_INT16 = 2,
	SML_WIRE_INT64 = 3, /* float64 only, and its default: 12 bytes for each element */
	SML_WIRE_EXACT = 4,
	SML_WIRE_INT8 = 5, /* float32, float16 and bfloat16 only */
	SML_WIRE_GRADIENT = 6
};

/* The most ranks with which gradients of bfloat16 travel as int16 where switches do not round. */
#define SML_INT16_RANKS 16

/* What is logged: each level has those before it, too. */
enum sml_log_level {
	SML_LOG_ERROR = 0,
	SML_LOG_WARN = 1,
	SML_LOG_INFO = 2, /* the settings that were chosen */
	SML_LOG_TRACE = 3
};

struct sml_context;
struct sml_request;

/*
 * Settings of a context. Begin with SML_CONFIG_INIT, and call sml_config_init(), which sets the
 * defaults and then the values from the environment. Change what you want, and pass it to
 * sml_open():
 *
 *	struct sml_config config = SML_CONFIG_INIT;
 *	if (sml_config_init(&config) == 0) {
 *		config.timeout_ms = 60000;
 *		error = sml_open(&job, &config);
 *	}
 *
 * The size tells versions apart, here and in the other structures.
 * An older program's structure is shorter: members that it does not have get their defaults, or
 * the environment's values, and nothing beyond its size is written. A newer program's structure
 * is longer, and is accepted if all members that this library does not know are zero. Otherwise,
 * or if the size is not set, the call fails, with SML_ERROR_CONFIG here, and elsewhere -EINVAL.
 *
 * sml_open() copies the strings. Strings set by sml_config_init() belong to the
 * environment and must not be freed. The comment of each member ends with its variable in the
 * environment and its default.
 *
 * Environment, in order of precedence: SWITCHML_RANK, SWITCHML_WORLD_SIZE,
 * SWITCHML_JOB, SWITCHML_SWITCH, …; then torchrun's RANK, WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT; then the variables of Open MPI, MPICH (PMI), and Slurm.
 */
struct sml_config {
	size_t size; /* sizeof(struct sml_config), set by SML_CONFIG_INIT */

	/*
	 * Address of the switch: "host[:port]". A comma stripes the job over
	 * several switches, "a,b". A bar adds switches to fail over to, in
	 * order, "a,b|c,d". NULL or "": each rank embeds a part of the switch (on
	 * one host, only the first ranks do). "embedded": each rank does so on
	 * one host as well. SWITCHML_SWITCH.
	 */
	const char *switch_address;
	/* The job's name, the same on all ranks. SWITCHML_JOB, or this run of the launcher. */
	const char *job;
	int rank;	/* This rank's number, 0 to world_size - 1. SWITCHML_RANK. */
	int world_size; /* The number of ranks, 1 to SML_MAX_WORLD_SIZE. SWITCHML_WORLD_SIZE. */

	/*
	 * Rank 0's address, where ranks meet if there is no switch. SWITCHML_MASTER_ADDR,
	 * 127.0.0.1. SWITCHML_MASTER_PORT, 0: the launcher's MASTER_PORT + 1, or 28500 without a
	 * launcher.
	 */
	const char *master_address;
	int master_port;

	/*
	 * The longest time that a call takes, in milliseconds: also the longest that a rank may
	 * compute while the others wait for it. SWITCHML_TIMEOUT (seconds), 30 minutes.
	 */
	int timeout_ms;
	/* A peer that is silent for this long counts as dead. SWITCHML_HEARTBEAT (seconds), 5 s. */
	int heartbeat_ms;
	/* How floats travel. SWITCHML_WIRE=int32|int16|int8|exact, SML_WIRE_DEFAULT. */
	enum sml_wire wire;
	/* How many data slots to request from each switch. SWITCHML_SLOTS, 0: the switch chooses.
	 */
	int slots;
	/* Progress threads. SWITCHML_THREADS, 0: by the number of cores for each rank. */
	int threads;
	/* The largest packet in bytes, with its IP header. SWITCHML_MTU, 0: what the path carries.
	 */
	int mtu;
	/*
	 * Network interfaces to use, as "eth0,ib", or not to use, as "^lo,docker": names and their
	 * beginnings. SWITCHML_SOCKET_IFNAME, NULL (the interface of the route to the switch).
	 */
	const char *interface;
	/*
	 * What is logged, of enum sml_log_level. SWITCHML_DEBUG=error|warn|info|trace,
	 * SML_LOG_WARN.
	 */
	int debug;
	int spin; /* 1: threads busy-wait, for low latency. SWITCHML_SPIN, 0. */
	/*
	 * For tests: faults that this rank injects into its own packets, each as
	 * a number of packets in a million, as in "drop=10000,duplicate=1000,
	 * reorder=1000,seed=7". To measure what a mechanism gains, switch it off:
	 * "tickets=0" (on all ranks), or "fastretransmit=0". SWITCHML_FAULTS, NULL.
	 */
	const char *faults;
	/*
	 * What this rank records, and in which files, as in "trace:/tmp/trace.%r,failure:/tmp/f".
	 * "%r" becomes the rank. SWITCHML_RECORD, NULL (nothing).
	 *	trace: calls, slots and retransmissions (docs/trace.md), written by sml_close().
	 *		Without "%r", the rank is appended. The n-th context of a process appends n.
	 *	metrics: counters for Prometheus' node exporter (docs/monitoring.md), every five
	 *		seconds until sml_close(). Without "%r", the rank comes before ".prom".
	 *	failure: what every slot was waiting for when the job failed (docs/errors.md). A
	 *		summary is logged in any case.
	 */
	const char *record;

	/*
	 * For control messages over TLS 1.3 (docs/security.md): PEM files with this
	 * rank's certificate, its key, and the authority that issued all certificates.
	 * Set all three or none. SWITCHML_TLS_CERTIFICATE, SWITCHML_TLS_KEY and
	 * SWITCHML_TLS_AUTHORITY, NULL.
	 */
	const char *tls_certificate, *tls_key, *tls_authority;
	/*
	 * Instead of certificates, a secret of 16 to 1024 bytes that all ranks and
	 * their switch share (docs/security.md), or a file that has it. Set at most one.
	 * sml_open() makes no copy of the secret. SWITCHML_JOB_KEY and SWITCHML_JOB_KEY_FILE,
	 * NULL.
	 */
	const char *job_key, *job_key_file;

	/*
	 * The function that gets log lines. If it is NULL, they go to standard error. level is a
	 * number as in `debug`. text has no newline, and is valid during the call. The function is
	 * called from sml_open() until sml_close() has returned, by any thread, including the
	 * library's own, and by several at once. The library may hold locks then. So the function
	 * must return soon, must not wait for a thread that is in a call of this library, and may
	 * call only sml_strerror(), sml_version() and sml_version_number(). log_self is passed on
	 * to it. If there is no switch, rank 0's control port still logs to standard error.
	 */
	void (*log)(void *log_self, int level, const char *text);
	void *log_self;

	/*
	 * sml_open() fails with -EINTR soon after *interrupt has become nonzero, and the switch
	 * forgets this rank. Another thread or a signal handler may set it, with an atomic store:
	 * __atomic_store_n(&flag, 1, __ATOMIC_RELEASE), or std::atomic_ref. The library reads it
	 * with atomic loads only. It is read until sml_open() returns. If a name server does not
	 * answer, sml_open() ends only when the resolver gives up. If it is NULL, nothing
	 * interrupts sml_open().
	 */
	const volatile int *interrupt;

	/*
	 * "FIRST-LAST": every port that this rank opens is in this range. If ranks embed the
	 * switch, master_port must be in it, too. SWITCHML_PORTS, NULL (any ports).
	 */
	const char *ports;

	/*
	 * 1 or -1: the ranks of each host add through shared memory, and one of them sends their
	 * sum. If there is no switch and all ranks are on one host, they send no packets
	 * (docs/hosts.md). 0: this rank sends its own packets. SWITCHML_HOST_GROUP, -1.
	 */
	int host_group;

	/*
	 * A rank that has waited this long for a switch, for other ranks, or in a call logs a
	 * warning that says what it waits for. It repeats the warning at growing intervals. 0:
	 * there is no warning. SWITCHML_WAIT_NOTICE (seconds), 5 s.
	 */
	int wait_notice_ms;

	/*
	 * 1: rank 0 logs one line when the job begins (its ranks, hosts, switch and wire) and one
	 * when it ends (its calls and bytes, what a ring would have sent, and the slowest rank).
	 * They have the level of warnings. A job of one rank has no such lines. 0: there are none.
	 * 2: and with the preload for MPI, each rank prints which of its calls went where.
	 * SWITCHML_SUMMARY=0|1|all, 1.
	 */
	int summary;

	/*
	 * 1: this is a new process of an elastic job, and has no rank yet: rank and world_size are
	 * ignored. sml_open() waits until the job's ranks let it in (sml_reconfigure() without a
	 * list of members), and then it is one of them. It needs a dedicated switch. SWITCHML_JOIN,
	 * 0.
	 */
	int join;
	/*
	 * Bounds of memberships that the switch decides on. Fewer ranks than min_ranks are an
	 * error. Processes that wait are let in until there are max_ranks. 0: there is no bound.
	 * No variable, 0.
	 */
	int min_ranks, max_ranks;
};
#define SML_CONFIG_INIT                                                                            \
	{                                                                                          \
		sizeof(struct sml_config), NULL, NULL, 0, 0, NULL, 0, 0, 0, SML_WIRE_DEFAULT, 0,   \
			0, 0, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,    \
			NULL, NULL, 0, 0, 0, 0, 0, 0                                               \
	}

/*
 * Set every member of config but its size: to its default, or to the environment's value.
 * Returns 0, or SML_ERROR_CONFIG if a variable is invalid, or the size; sml_error_text(NULL)
 * names the variable.
 */
SML_API int sml_config_init(struct sml_config *config);

/*
 * Join a job, and wait until all of its ranks have joined. NULL as config stands for
 * the values that sml_config_init() sets. On success, *context is valid
 * until sml_close(). On failure, *context is NULL and sml_error_text(NULL) says why.
 *
 * Errors: SML_ERROR_CONFIG (a setting is missing or wrong), SML_ERROR_UNREACHABLE (no switch
 * answers, or no UDP packet came back), SML_ERROR_REFUSED (the switch has no room, or the job has
 * such a rank already), SML_ERROR_MISMATCH (ranks disagree about the job), SML_ERROR_RANK_DIED,
 * SML_ERROR_SWITCH_DIED (the switch died before the job had begun, and the job could begin at no
 * other address within ten seconds), SML_ERROR_TIMEOUT (ranks are missing), SML_ERROR_VERSION,
 * SML_ERROR_TLS, -EINTR (see interrupt in struct sml_config), -ENOMEM, and others of errno. If
 * config->join is set and another member dies before the job has begun, the call fails, and may be
 * made again.
 */
SML_API int sml_open(struct sml_context **context, const struct sml_config *config);

/*
 * Leave the job and free the context, also after an error. This call waits until every rank has
 * asked to leave, but at most the timeout, so that no rank is cut off in the middle of a call. It
 * also frees the requests that nobody has waited for. Returns 0, or the error that ended the job.
 * The context is freed in both cases. context may be NULL.
 */
SML_API int sml_close(struct sml_context *context);

/*
 * The next membership of an elastic job: what sml_reconfigure() gets. Begin with
 * SML_MEMBERSHIP_INIT, and then set members. The size tells versions apart, as in struct
 * sml_config.
 */
struct sml_membership {
	size_t size; /* sizeof(struct sml_membership), set by SML_MEMBERSHIP_INIT */
	/*
	 * A name that is the same on all members, and that no other membership has ever had: a
	 * UUID, for example, or the first name and a number that grows. If it is NULL, the switch
	 * decides on the members (see below).
	 */
	const char *job;
	/* This process's rank, and the number of ranks. Both are 0 if the switch decides. */
	int rank, world_size;
	/*
	 * If there is no switch: where this membership's rank 0 listens. NULL and 0 stand for the
	 * address and port of before, which are right if rank 0 is a process on the same host.
	 */
	const char *master_address;
	int master_port;
	/* The longest time that this call to sml_reconfigure() takes. 0: the context's timeout. */
	int timeout_ms;
	/* If the switch decides: bounds as in struct sml_config. 0: those of the configuration. */
	int min_ranks, max_ranks;
	/*
	 * If the switch decides: how long after the first rank has asked it waits for the other
	 * ranks of the last membership. It does not wait for ranks that it knows to have died or
	 * left. 0: the heartbeat.
	 */
	int wait_ms;
};
#define SML_MEMBERSHIP_INIT                                                                        \
	{                                                                                          \
		sizeof(struct sml_membership), NULL, 0, 0, NULL, 0, 0, 0, 0, 0                     \
	}

/*
 * Ranks may die, leave and join, and the others go on: leave this context's job, and wait until
 * all ranks of the next one have joined. The context stays the same. Call this function after an
 * error that ended the job (SML_ERROR_RANK_DIED, SML_ERROR_SWITCH_DIED, SML_ERROR_TIMEOUT, ...), or
 * without an error to change the members of a job that runs. New processes call sml_open() with the
 * new name. docs/elastic.md has examples.
 *
 * Members. The program decides who they are, and chooses a name that is new. It does so in its own
 * way: with a launcher, a shared file, a store or a quorum. All members pass the same job,
 * world_size and address of rank 0, and each passes its own rank. If they do not, they do not meet,
 * and the call fails as sml_open() does. A process that is not a member closes its context.
 *
 * Or the switch decides, if job is NULL. Then the program needs no list of members and no
 * agreement. This needs a dedicated switch; the job may have several stripes, a tree or host
 * groups. Every rank that goes on calls this function within wait_ms. The ranks that have done so
 * by then are the members, in their old order. New processes (struct sml_config's join) are added
 * behind them, in the order in which they came, until there are max_ranks; the rest of them keep
 * waiting. The members' job is called "NAME #N", where NAME is the job's first name, which new
 * processes give. After the call, sml_get_info() describes the membership. There are never two such
 * memberships of one job that both compute. So a rank that comes too late is refused with
 * SML_ERROR_REFUSED, and so are all ranks if they are fewer than min_ranks after wait_ms. The
 * switch at which the job ran last decides. If it has died, another switch can decide only if all
 * ranks of the last membership ask there, because the others might go on elsewhere. Otherwise the
 * call fails with SML_ERROR_TIMEOUT after wait_ms, and the program must decide. All ranks must use
 * the same one of the two forms: otherwise, those that let the switch decide fail with
 * SML_ERROR_MISMATCH, and so do the others if their job has not begun.
 *
 * The old job. It ends at once, also for its other ranks. Their calls in progress fail with
 * SML_ERROR_ABORTED, or with the error that they had before, and so do all their calls until they
 * reconfigure as well. So if there was no error, call this function only when all members have the
 * results of their last call (they agree on the new name after that call). A rank of the old job
 * that was frozen, and wakes up, gets an error. It can never contribute to the new job, whose
 * packets have other numbers, tags and cookies.
 *
 * Progress of the old job. When a job ends, some ranks may have completed a call that has failed on
 * others. Its result is not handed over. Let the members compare the numbers of their steps, and
 * broadcast the state from the one that is furthest, as examples/elastic.c does. A rank completes a
 * call only with the contributions of all ranks, including those that have died since. So if one
 * rank has completed a call, all ranks have made it, and all that have completed it have the same
 * bits. Ranks that make one call at a time differ by one call at most. If ranks have several
 * requests in progress, each of these may be complete on some ranks and not on others; earlier
 * calls are complete on all.
 *
 * Calls in progress. Before sml_reconfigure() joins the new job, they end: with 0 if they were
 * complete, else with the error of the old job, or with SML_ERROR_ABORTED if it had none. Requests
 * keep that result: pass them to sml_wait() as always, also after sml_reconfigure().
 * Calls that other threads make while this one
 * waits for the members fail with SML_ERROR_CLOSED.
 *
 * Buffers. The receive buffer of a failed call is undefined: some of its elements may be results,
 * and others not. If the call was in place, the input is lost. So a program that wants to repeat a
 * call with fewer ranks passes different buffers as send and recv, because send is never written.
 * Once the call, or its wait, has returned, the library does not access its buffers any more.
 *
 * What stays: all settings, including the list of switches (or leaves of a tree), TLS and the job
 * key, and the descriptor of sml_event_fd(). Counters go on. What is chosen anew, as for any new
 * job: host groups, the switch of the list, stripes if ranks embed them, the numbers of slots and
 * lanes, and the wire that a type has by default. A trace has a file for each membership,
 * and %r in names of files becomes the new rank.
 *
 * Time. The call usually takes as long as sml_open(), and at most the timeout. sml_abort() from
 * another thread ends it earlier.
 *
 * Errors: those of sml_open(), of which SML_ERROR_RANK_DIED says that another member died while it
 * joined, and SML_ERROR_ABORTED (sml_abort() ended the call). After these, the context has no job,
 * and every call on it fails with that error. Call sml_reconfigure() again, with another new name,
 * or sml_close(). -EINVAL (a member of *membership is invalid, or it has the name of the job that
 * this context has or had last), -EBUSY (another thread is in this call), SML_ERROR_FORKED. After
 * these, nothing has changed. sml_error_text(NULL) says why.
 */
SML_API int sml_reconfigure(struct sml_context *context, const struct sml_membership *membership);

/* Where a job's numbers are added. */
enum sml_job_path {
	SML_PATH_NONE = 0,   /* the context has no job */
	SML_PATH_MEMORY = 1, /* in the memory of the one host that has all ranks: no packets */
	SML_PATH_RANKS = 2,  /* in a part of the switch in each of some ranks */
	SML_PATH_HOSTS = 3,  /* in a part of the switch on each host */
	SML_PATH_SWITCH = 4, /* at one switch, or several */
	SML_PATH_MEMORY_AND_SWITCH = 5 /* there, but the ranks of a host add in its memory first */
};

/* About a context, its job, and the library. The size tells versions apart, as in sml_config. */
struct sml_info {
	size_t size; /* sizeof(struct sml_info), set by SML_INFO_INIT */
	int has_tls; /* 1: built with TLS. 0: sml_open() refuses certificates and job keys. */
	int rank;    /* this rank's number: 0 to world_size - 1 */
	int world_size;
	/*
	 * If the switch decided on this membership (sml_reconfigure()): of each rank, the rank that
	 * it had in the membership before, or -1 if it is new. Ranks of before that are not here
	 * have left. Otherwise NULL. Valid until sml_reconfigure() or sml_close().
	 */
	const int *previous_ranks;
	/*
	 * How many processes wait to join this job: new ones with join in their struct sml_config.
	 * The job's switch reports the number when one comes, and about every second. Ranks may
	 * learn it at different times, so let one of them decide for all when to call
	 * sml_reconfigure().
	 */
	int waiting;
	int stripes; /* how many: each of m switches serves every m-th chunk. 0: there is no job. */
	enum sml_job_path path;
	/*
	 * The same for people, as "the switch at tor1:28500" or "a part of the switch in each of 4
	 * ranks". Another switch that takes over has another address.
	 */
	char path_text[160];
};
#define SML_INFO_INIT                                                                              \
	{                                                                                          \
		sizeof(struct sml_info), 0, 0, 0, NULL, 0, 0, SML_PATH_NONE, ""                    \
	}

/*
 * Fill info. If context is NULL, only has_tls is set, and the rest is 0. Returns 0;
 * SML_ERROR_CLOSED while another thread is in sml_reconfigure(); SML_ERROR_FORKED in a child
 * process; or -EINVAL if the size is wrong. Any thread may call this function.
 */
SML_API int sml_get_info(const struct sml_context *context, struct sml_info *info);

/* The size of one element of a type in bytes. Returns 0 if there is no such type. */
SML_API size_t sml_type_size(enum sml_type type);

/*
 * How one call is made. Begin with SML_OPTIONS_INIT, and then set members:
 *
 *	struct sml_options options = SML_OPTIONS_INIT;
 *	options.wire = SML_WIRE_INT16;
 *
 * The size tells versions apart, as in struct sml_config.
 */
struct sml_options {
	size_t size; /* sizeof(struct sml_options), set by SML_OPTIONS_INIT */
	/*
	 * How floats travel. SML_WIRE_DEFAULT: the context's, or for float64 SML_WIRE_INT64. Calls
	 * that copy do not look at it.
	 */
	enum sml_wire wire;
	/*
	 * 1: this thread promises to wait for the request next, at once. If ranks share memory, it
	 * then does the call's work itself in sml_wait(), as in a call that waits, and no other
	 * thread is woken. If no wait follows, the call may make no progress before a thread waits.
	 */
	int waits;
	/*
	 * The call's name, or NULL or "". All ranks must give the same one, as they must pass the
	 * same root: otherwise the call fails with SML_ERROR_MISMATCH, whose text has the first 159
	 * bytes of each name. So a program that makes something of its own from several calls can
	 * say what it is. A barrier with a name gives a call that the program makes elsewhere, with
	 * MPI or with its framework's own backend, a place in the order of this job's calls: wait
	 * for the barrier before you make that call. The name is copied.
	 */
	const char *name;
};
#define SML_OPTIONS_INIT                                                                           \
	{                                                                                          \
		sizeof(struct sml_options), SML_WIRE_DEFAULT, 0, NULL                              \
	}

/*
 * The collectives. options may be NULL, and count may be 0. If request is NULL, the function waits
 * for the end of the call. Otherwise, it only begins the call, and sets *request, for sml_wait():
 * until the call has ended, do not write the buffers, and do not read the receive buffer. Many
 * requests may be in flight. If a function fails that only begins, nothing has begun, and *request
 * is not set.
 *
 * Errors of the calls: -EINVAL (an argument is invalid; the text names it), SML_ERROR_MISMATCH
 * (another rank made a different call), SML_ERROR_RANK_DIED, SML_ERROR_SWITCH_DIED,
 * SML_ERROR_TIMEOUT, SML_ERROR_ABORTED, SML_ERROR_CLOSED, SML_ERROR_FORKED, -ENOMEM.
 */

/*
 * Combine count elements of all ranks, element by element. Every rank gets the
 * same bits. send may equal recv (in place), but must not overlap it otherwise.
 */
SML_API int sml_allreduce(struct sml_context *context, const void *send, void *recv, size_t count,
			  enum sml_type type, enum sml_op op, const struct sml_options *options,
			  struct sml_request **request);

/*
 * Combine count elements of all ranks: as sml_allreduce(), but only root gets the result. On other
 * ranks recv is not used, and may be NULL. It takes as long as an all-reduce: every rank receives
 * the same packets, in case the switch dies before root has its result.
 */
SML_API int sml_reduce(struct sml_context *context, const void *send, void *recv, size_t count,
		       enum sml_type type, enum sml_op op, int root,
		       const struct sml_options *options, struct sml_request **request);

/*
 * Copy root's count elements to all ranks: data is read on root, and written on every other rank.
 * The buffer needs no alignment.
 */
SML_API int sml_broadcast(struct sml_context *context, void *data, size_t count, enum sml_type type,
			  int root, const struct sml_options *options,
			  struct sml_request **request);

/*
 * Gather every rank's count elements: rank r's send is copied to recv + r x count elements, on all
 * ranks. recv has world_size x count elements. In place: rank r passes send = recv + r x count
 * elements, which are then not written. Any other overlap of send and recv is refused with -EINVAL.
 * The buffers need no alignment.
 */
SML_API int sml_allgather(struct sml_context *context, const void *send, void *recv, size_t count,
			  enum sml_type type, const struct sml_options *options,
			  struct sml_request **request);

/*
 * Combine world_size x count elements of all ranks. Rank r receives part r, which has count
 * elements. In place: rank r passes recv = send + r x count elements, and the other elements of
 * send keep their values. Any other overlap is refused with -EINVAL.
 */
SML_API int sml_reduce_scatter(struct sml_context *context, const void *send, void *recv,
			       size_t count, enum sml_type type, enum sml_op op,
			       const struct sml_options *options, struct sml_request **request);

/* End when all ranks have made this call. */
SML_API int sml_barrier(struct sml_context *context, const struct sml_options *options,
			struct sml_request **request);

/*
 * Wait until calls have ended: all n of them if index is NULL, else one of them. All requests
 * belong to one context. A request whose call has ended is freed and becomes NULL; those that are
 * NULL are ignored. Returns 0, or an error of the calls that have ended.
 *
 * timeout_ms: 0 only looks, and a negative number is the context's timeout, after which calls fail.
 * If the time passes before all (or one) have ended, the return value is -EAGAIN: the calls whose
 * requests are not NULL go on, their buffers still belong to them, and other ranks notice nothing.
 *
 * *index becomes the index of the request whose call has ended, or n if there is none: if the time
 * has passed, or all requests are NULL. Two threads must not wait for the same request.
 */
SML_API int sml_wait(struct sml_request **requests, size_t n, int timeout_ms, size_t *index);

/*
 * A file descriptor for poll(), epoll or an event loop: it becomes readable when calls of this
 * context have ended, or when the context has failed. Returns the descriptor, or a negative
 * number. It is always the same eventfd. sml_close() closes it.
 *
 * When it is readable, first read its 8 bytes, and then look with sml_wait(). In this order,
 * no end of a call can be missed. The number that was read has no meaning. The descriptor is
 * readable at first. While calls are in progress, it also becomes readable from time to time
 * although no call has ended, so that sml_wait() can notice a deadline. Never write to it.
 */
SML_API int sml_event_fd(struct sml_context *context);

/*
 * End the job for every rank. Pending and later calls on all ranks fail with
 * SML_ERROR_ABORTED and this reason, a text that is copied. Any thread may call this function. If
 * another thread is in sml_reconfigure(), that call fails with SML_ERROR_ABORTED, on this rank.
 */
SML_API int sml_abort(struct sml_context *context, const char *reason);

/*
 * Change the time that later calls may take, in milliseconds: the context's timeout_ms. For
 * example, a short time while all ranks start, and a long one for the first checkpoint. Calls under
 * way keep theirs. Ranks need not agree. Any thread may call it. Returns 0, or -EINVAL if
 * timeout_ms is below 1.
 */
SML_API int sml_set_timeout(struct sml_context *context, int timeout_ms);

/*
 * A sentence about the last error of this context. If context is NULL, it is about the calling
 * thread's last failed sml_config_init(), sml_open() or sml_reconfigure(). The text is never NULL,
 * and is valid until the same thread calls this function again.
 */
SML_API const char *sml_error_text(const struct sml_context *context);

/* The short text of an error number, SwitchML's or errno's. It is never NULL, and is not freed. */
SML_API const char *sml_strerror(int error);

/*
 * The version of the library that runs: as text ("0.1.0"), or as a number like
 * SML_VERSION_NUMBER. The macros are those of the header that the program was compiled with.
 */
SML_API const char *sml_version(void);
SML_API int sml_version_number(void);

/*
 * What has happened since sml_open(), in all memberships (sml_reconfigure()). Times are in
 * nanoseconds. If ranks share memory, there are no packets, and only tensors are counted.
 */
struct sml_counters {
	size_t size; /* sizeof(struct sml_counters), set by the caller */
	uint64_t packets_sent, packets_received;
	uint64_t bytes_sent, bytes_received; /* UDP payload */
	uint64_t retransmits_timeout;	     /* after a timeout, or as a probe of a call's tail */
	uint64_t retransmits_fast;	     /* because later packets were answered first */
	uint64_t packets_ignored;	     /* stale, duplicate or not ours */
	uint64_t rtt_ns;		     /* smoothed round-trip time */
	uint64_t rtt_min_ns;
	uint64_t window;       /* packets allowed in flight now */
	uint64_t stalls;       /* times that nothing arrived for a whole timeout */
	uint64_t tensors;      /* collectives completed */
	uint64_t send_blocked; /* times that the socket was full */
};

/*
 * Copy the counters of one stripe, or of all together if stripe is -1. Those of one begin with the
 * membership: compare them to find a slow or lossy switch. If name is not NULL, *name becomes the
 * address of the stripe's switch, a text that is valid until sml_close() or sml_reconfigure(), or
 * NULL for all. counters->size says which members the program knows. While another thread is in
 * sml_reconfigure(), this fails with SML_ERROR_CLOSED.
 */
SML_API int sml_get_counters(const struct sml_context *context, int stripe,
			     struct sml_counters *counters, const char **name);

/*
 * Count calls that the program has made with another library instead. The line at the job's end
 * (`summary` in struct sml_config) has their number. where is the name of that library or backend,
 * as in "Gloo", and is copied: its first 31 bytes are used, and the last name is shown. Any thread
 * may call this function. A NULL context is ignored.
 */
SML_API void sml_count_elsewhere(struct sml_context *context, const char *where, uint64_t calls);

#ifdef __cplusplus
}
#endif

#endif
