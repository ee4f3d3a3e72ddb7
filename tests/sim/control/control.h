/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control plane in a simulated world: the jobs of several switches (job/switch.h) and
 * the ranks of one job (job/rank/search.h, job/rank/session.h), connected by links of varying
 * delay. The data path is abstract: a call ends for a rank when its switch has contributions
 * from all ranks and the result has arrived.
 *
 * Switches have silent or slow addresses, refuse connections, have no room, lack a path for
 * UDP, or have a path for small packets only. They die, freeze, and come back. Ranks come
 * late, die, freeze, and die while they leave. Other jobs take slots from a switch's pool.
 * In some worlds there is no dedicated switch, and rank 0 has the control port. In some, the
 * switches are a tree; a wide world is a tree with up to 4,096 ranks. One seed determines
 * everything.
 *
 * What must hold: every rank ends within a bound. An error blames a rank only if that rank
 * died. If no rank died and a switch that can serve all ranks stays up, all calls succeed.
 * All ranks get the same result of a call, before and after a failover.
 */
#ifndef SML_SIM_CONTROL_H
#define SML_SIM_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

struct sim_control_result {
	bool passed;
	char failure[800];
	uint64_t events, failovers, virtual_ns, hash;
	uint32_t n_well, n_errors, n_dead; /* number of ranks, by how they ended */
	uint32_t n_memberships;		   /* if they change; otherwise 0 */
};

enum sim_control_kind {
	SIM_CONTROL_SMALL,
	SIM_CONTROL_WIDE,   /* 65 to 4,096 ranks */
	SIM_CONTROL_ELASTIC /* a job whose members change: elastic.c */
};

/* trace: print every event. */
void sim_control_run(uint64_t seed, enum sim_control_kind kind, bool trace,
		     struct sim_control_result *result);

#endif
