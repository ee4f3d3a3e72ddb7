/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job of a context: one membership. A context has one after the other (reconfigure.c); what
 * outlives them is in settings, requests, counters and the notifier.
 *
 *	sml_membership_init() -- sml_membership_join() -- calls -- sml_membership_fini()
 *	        ^                                                          |
 *	        \---------------------- the next one ----------------------/
 */
#ifndef SML_LIB_MEMBERSHIP_H
#define SML_LIB_MEMBERSHIP_H

#include "job/rank/search.h"
#include "lib/context/context.h"

struct sml_probe;

/* Nothing is open yet. Cannot fail. */
void sml_membership_init(struct sml_context *context);

/*
 * Join the job of the settings, and wait until all its ranks have. Returns 0, or a negative error
 * with its text set; then, too, sml_membership_fini() frees what exists.
 */
int sml_membership_join(struct sml_context *context, uint64_t deadline_ns);

/*
 * Ends the threads and connections, and frees everything of the job. Always call this after
 * sml_membership_init(), when no call is inside the context.
 */
void sml_membership_fini(struct sml_context *context);

/*
 * For a form's begin(): make n stripes, with memory for `most`. Returns 0, or a negative error and
 * sets the error text.
 */
int sml_membership_make_stripes(struct sml_context *context, unsigned most, unsigned n,
				uint64_t deadline_ns);

/* The switch has decided which rank of which job this is. In the thread that opens stripe 0. */
int sml_membership_decided(struct sml_stripe *stripe);

/* The switch, or another one, may ask for this rank's place in the job, which ends. */
void sml_membership_note_rank(struct sml_stripe *stripe);

/*
 * Connect, and join; at a switch, also open the transports, prove the paths, and start. Afterwards,
 * `lanes` is known. Returns 0, or an error and sets the error text; the error is SML_ERROR_CLOSED
 * if another stripe has failed.
 */
int sml_stripe_begin(struct sml_stripe *stripe);
extern const struct sml_job_form sml_form_switches;

/* ---- how a stripe gets a control connection (join.c) ---- */

/* Whom it looks for until its job begins. */
enum sml_search_kind sml_stripe_search_kind(const struct sml_stripe *stripe);

/* Note that the stripe is connected to this switch now. */
void sml_stripe_set_connection(struct sml_stripe *stripe, const struct sml_reached *connection);

/* As sml_control_open(), for this stripe. What the control waits for ends with the threads. */
int sml_stripe_open_control(const struct sml_stripe *stripe, const struct sml_reached *connection,
			    struct sml_loop *loop, struct sml_control **control);

/* Connect and open the control. Returns 0 or a negative error, and sets the error text. */
int sml_stripe_connect_control(struct sml_stripe *stripe);

/*
 * Once connected, with a list of members, to a switch other than the one that the job ran at last:
 * tells that one, which otherwise may decide that the job goes on with the ranks that ask it, as if
 * this rank had gone. One that is gone decides nothing. Returns 0, or an error if it has decided or
 * is about to, and sets the error text.
 */
int sml_stripe_tell_last_switch(struct sml_stripe *stripe);

/*
 * Connects to another switch, which the stripe does not join. Returns 0 and the control, or an
 * error.
 */
int sml_stripe_open_beside(const struct sml_stripe *stripe, const struct sml_endpoint *endpoint,
			   uint64_t deadline_ns, struct sml_control **control);

/* Finds the most lanes that the path seems to carry. Returns 0, or an error with its text set. */
int sml_stripe_lanes(const struct sml_stripe *stripe, uint16_t *lanes);

/* The master's address. */
const char *sml_master_host(const struct sml_context *context);

/*
 * The control connection gets its thread. Returns 0 or a negative error, and sets the error text.
 */
int sml_stripe_start_control(struct sml_stripe *stripe);

/*
 * ---- going on when a switch has died (failover.c) ----
 *
 * Continue when a dedicated switch has died: with the next address of the list,
 * or with the same one when it is back. core/resume.h has the rules. Calls in
 * progress only take longer.
 *
 * Only the stripe that has lost its switch waits for another one. Epoch, table and
 * report belong to one stripe, so the switches of other stripes are not involved, and
 * the other stripes go on.
 */

/*
 * The control thread reports that its switch is lost. Returns at once: a separate
 * thread parks the stripe's shards and looks for a switch, within the timeout.
 * Until the context runs, there are no shards: the loss is only noted.
 */
void sml_failover_begin(struct sml_stripe *stripe, const char *lost);

/*
 * The context runs now: begin with what was lost before, after the switch had started the job.
 * Other ranks may have made calls by then, so this rank must not begin anew. Returns 0 or an error,
 * and sets the error text.
 */
int sml_failover_begin_early(struct sml_context *context);

enum sml_failover_end {
	SML_FAILOVER_WENT_ON, /* there is a control that lives */
	SML_FAILOVER_LEFT,    /* all ranks that could be found only wanted to leave */
	SML_FAILOVER_NOT      /* the context has failed, or the deadline has passed */
};

/*
 * A rank that leaves waits until a failover in progress has ended, with or without success, but for
 * at most SML_LEAVE_WAIT_NS, because the others may be gone.
 */
enum sml_failover_end sml_failover_wait_to_leave(struct sml_stripe *stripe, uint64_t deadline_ns);

/*
 * End the connection to a lost switch, but keep its control's memory. Returns false if there is no
 * memory.
 */
bool sml_stripe_retire_control(struct sml_stripe *stripe);

/* Stop the threads, including the failover's. No other failover begins. */
void sml_failover_fini(struct sml_stripe *stripe);

/*
 * ---- a rank that waits in a call says for which ranks (wait_notices.c) ----
 *
 * Only control threads look, so a call costs nothing. A call waits since its last chunk came, or
 * since it was made: a large tensor on a slow network is no wait. When a notice is due
 * (settings/notice.h), each switch is asked what its slots wait for. What is told is what all of
 * them said, unless the call has gone on meanwhile.
 */

/* Call this at every tick of a control, in its thread. */
void sml_wait_notices_check(struct sml_context *context);

/*
 * ---- ranks that wait at different switches (apart.c) ----
 *
 * Ranks whose lists have the same switches in different orders ("a|b" and "b|a") wait at different
 * switches for each other. So one of those that wait at a switch looks at the others of its list;
 * and at rank 0, which may have no switch, and wait for them.
 *
 * If rank 0 has a switch, and others have none, these look for it at its port, and only there. So
 * rank 0 opens that for a moment, again and again, where who comes is told: not all the time,
 * because another job of this host may want the port.
 */

struct sml_apart {
	struct sml_stripe *stripe;
	uint64_t begun_ns, at_ns; /* at_ns: when it looks */
	/* The other switches, and rank 0's port, which may open later. */
	struct sml_control *asked[SML_MAX_ENDPOINTS], *rank_0;
	unsigned n_asked;
	/* Where rank 0 is if it has no switch; found by the resolver where that is a name. */
	struct sml_endpoints *places;
	struct sml_resolver *resolver;
	struct sml_switch *port; /* this rank's, while it is open, until then */
	uint64_t port_ns;
};

/* The stripe has asked to join. */
void sml_apart_begin(struct sml_apart *apart, struct sml_stripe *stripe);

/* Again and again while it waits. Aborts the stripe's job if ranks are apart. */
void sml_apart_look(void *self);

void sml_apart_end(struct sml_apart *apart);

/*
 * ---- what moves packets (data_path.c) ----
 *
 * A transport, a line and a worker for each stripe and shard.
 */

/*
 * After admission: opens a transport for each shard (SML_MAX_SHARDS places, NULL at first), proves
 * the paths and agrees with the other ranks on the lane count that this stripe's switch starts
 * with. Returns 0, or an error with its text set by sml_error_set(). The caller owns the transports
 * in any case.
 */
int sml_data_path_agree(struct sml_stripe *stripe, struct sml_control *control,
			struct sml_transport **transports, uint16_t *lanes, uint64_t deadline_ns);

/*
 * One transport: to the stripe's switch, or, where peers (one shard's, of all
 * ranks) is not NULL, to all of them, of any family that the system has. Returns 0 or a negative
 * error, and sets the error text.
 */
int sml_data_path_open_transport(const struct sml_stripe *stripe, unsigned shard,
				 const union sml_sockaddr *peers, struct sml_transport **transport);

/* Closes the transports that exist, and forgets them. */
void sml_data_path_close(struct sml_transport **transports);

/*
 * When all stripes have opened: the job's lane count is the least of theirs. Creates the threads,
 * not started yet, with lines and shards. Returns 0, or an error with its text set; the context
 * owns what exists in any case.
 */
int sml_data_path_open(struct sml_context *context);

/*
 * For a replacement switch: the stripe's shards are parked, and get workers and transports of the
 * new epoch. keep: see sml_shard_renew().
 */
int sml_data_path_renew(struct sml_stripe *stripe, struct sml_control *control,
			uint64_t deadline_ns, bool keep);

/*
 * The last part of it: the stripe's admission is that of the new epoch, and these transports (one
 * a shard) become the shards' own. Returns 0; or an error, and then sets the error text, and no
 * shard has changed.
 */
int sml_data_path_renew_shards(struct sml_stripe *stripe, struct sml_transport **transports,
			       bool keep);

/*
 * ---- is the UDP path open, and how wide is it? (probe.c) ----
 *
 * Checked for each switch or rank, and shard, before the job starts.
 */

/*
 * Of the paths to the stripe's switch; or, where ranks have the slots, to all other ranks that have
 * some: then `own` are the rules of this rank's slots, for which it answers the others' probes, or
 * NULL if it has none. The pointers must outlive the probe. NULL if there is no memory; the text is
 * set.
 */
struct sml_probe *sml_probe_new(const struct sml_stripe *stripe,
				struct sml_transport *const *transports,
				const struct sml_pool_rules *own);
void sml_probe_free(struct sml_probe *probe);

/*
 * Finds the largest lane count, at most *lanes, whose packets come back from every target, and
 * stores it in *lanes. Returns 0 or an error, and sets the error text: SML_ERROR_UNREACHABLE after
 * a heartbeat at most (and 15 s) without any answer, or at deadline_ns. The control connection is
 * kept alive meanwhile.
 */
int sml_probe_run(struct sml_probe *probe, struct sml_control *control, uint16_t *lanes,
		  uint64_t deadline_ns);

/* Answer the other ranks' probes, until all of them are ready. */
void sml_probe_serve(struct sml_probe *probe);

/*
 * ---- what a job makes of the ranks on this host (hosts.c) ----
 *
 * This rank says where it is, and meets the others. If all ranks of a job without a switch share
 * memory, they send no packets. With a switch, or on several hosts, the ranks of a host contribute
 * as one; their lowest rank sends for them.
 *
 * Once the job is settled:
 * - threads.host is NULL, or has n_stripes entries. It is not NULL exactly if this rank shares
 * memory. With switches, this is so exactly if every stripe's admission has host_ranks.
 * - All entries have the same leader_fd, which is closed once, and the sleepers of the first one.
 * - No stripe has a listener or stripe->met, and hosts.found.fd is -1.
 */

/* Call this before the stripes open. */
void sml_hosts_begin(struct sml_context *context);

/* Before the join: what to say in it. Nothing if this rank cannot share memory, or must not. */
void sml_hosts_advertise(struct sml_stripe *stripe, struct sml_application *application);

/*
 * All ranks say so (or not): keep what this one shares with others beside the threads, or drop it.
 * context->n_stripes is final. Returns 0 or a negative error, and sets the error text.
 */
int sml_hosts_settle(struct sml_context *context, bool share);

/*
 * The stripe's switch was lost before the job began, and its ranks will meet anew, or go on with
 * what they share, if some of them have begun. False if it is too late for that, or there is no
 * socket.
 */
bool sml_hosts_meet_again(struct sml_stripe *stripe);

/* Whether this rank is to send packets. */
bool sml_hosts_sends(const struct sml_stripe *stripe, const struct sml_readiness *found);

/*
 * With switches: all stripes have opened. The job starts with what their last admissions say.
 * Settles that. Returns 0 or a negative error, and sets the error text.
 */
int sml_hosts_ready(struct sml_context *context);

/* Frees what exists. Call this after the lines are closed. */
void sml_hosts_fini(struct sml_context *context);

/*
 * ---- the handshake of the ranks on this host, while a stripe opens (hosts.c) ----
 *
 * The admission names the ranks that may be here. They pass memory to each other (lib/host/meet.h),
 * and each says in Ready whether all of them share it.
 *
 * - Each stripe has one handshake, and it ends within 10 s, and before the stripe's deadline. After
 *   it, stripe->listener is closed.
 * - stripe->met is not NULL only if this rank and each of admission.neighbors have proved to each
 *   other that they map the same memory.
 * - Each switch of a job hears the same from this rank. So context->hosts.found.apart, once true,
 *   stays true, and no stripe says anything before all have met or one of them could not.
 */

/*
 * Where ranks have the slots: who contributes to them if all ranks of each host share memory. n: 1
 * if there is one host, which then sends no packets; 0 if memory cannot be shared.
 */
struct sml_senders sml_hosts_list(const struct sml_context *context);

/*
 * After the admission: found->shares_memory says whether all ranks that the switch has admitted as
 * one with this rank share memory with it, as far as this rank can tell; it is the same for all
 * stripes. Without a switch, also if this rank is alone here and others are together elsewhere.
 * Takes a bounded time, in which the probe, if there is one, answers the other ranks' probes. When
 * the job goes on at another switch, the memory is made ready for that. 0, or an error.
 */
int sml_hosts_meet(struct sml_stripe *stripe, struct sml_control *control, struct sml_probe *probe,
		   struct sml_readiness *found);

/*
 * ---- the form without a switch (embedded.c) ----
 *
 * Ranks embed the stripes of their job. Rank 0 has the control port, where all ranks learn the
 * others' addresses. Each rank has one socket per thread, for its packets to the other ranks' slots
 * and their packets to its own slots. Where ranks of a host share memory (hosts.c), only the first
 * one keeps its stripe and its socket.
 *
 * Such a stripe ends with its rank, so nothing is ever resumed.
 */

/* Where every rank takes the packets of every shard. */
struct sml_peers {
	union sml_sockaddr address[SML_MAX_SHARDS][SML_MAX_CHILDREN];
};

extern const struct sml_job_form sml_form_ranks;

/*
 * ---- rank 0's control port (listen.c) ----
 *
 * It listens no wider than the ranks need.
 */

/*
 * The numeric address to listen on, in text: the one of this host that `master` names; otherwise
 * that of the first interface that passes `filter` (SWITCHML_SOCKET_IFNAME; NULL for none). "":
 * neither, so listen on all addresses. A name with several addresses of this host, or only loopback
 * addresses, does not decide: the ranks may have resolved another one.
 */
void sml_listen_choose(const char *master, const char *filter, char text[INET6_ADDRSTRLEN]);

/*
 * Rank 0: open the control port, at the loopback if the master's address is one. The last
 * job's may be open, and stays so; or it belongs to rank 0 of the last one, which is about to close
 * it. Returns 0 or a negative error, and sets the error text.
 */
int sml_listen_open(struct sml_context *context, uint64_t deadline_ns);

/* Close it, if it is open. */
void sml_listen_close(struct sml_context *context);

/*
 * Rank 0 of a job that has a switch: open the port where those look for it that have none. Returns
 * NULL if there is none now, and for the default port: any job of this host may want that, and have
 * the same name. sml_switch_close() closes it.
 */
struct sml_switch *sml_listen_open_beside(struct sml_context *context);

/*
 * ---- the summaries in the log (summary.c) ----
 *
 * The log has two summaries of a context: what runs when it has opened, and what it moved when it
 * closes. Of both, rank 0 logs a short line for people, and each rank logs the details at `info`.
 */

/*
 * Rank 0's line when the job begins: at most 120 columns on a terminal. To be called before a
 * failover can begin, as sml_log_choices().
 */
void sml_log_start(const struct sml_context *context);

/* Rank 0's line when it ends, well (0) or with an error. */
void sml_log_end(struct sml_context *context, int error);

/*
 * Where numbers are added, and as text: "the switch at tor1:28500 (udp)", "3 switches (udp), the
 * first at tor1:28500". kind: " (udp)", or "" where a failover may be changing it. Without a job,
 * the text is not written.
 */
enum sml_job_path sml_context_path(const struct sml_context *context, const char *kind, char *text,
				   size_t bytes);

/* When it has opened: the form, the stripes, and what was chosen for them. */
void sml_log_choices(const struct sml_context *context);

/* When it closes: the counters, and each stripe's where there are several. */
void sml_log_counters(const struct sml_context *context);

#endif
