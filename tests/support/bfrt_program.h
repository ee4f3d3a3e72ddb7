/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our program for Tofino as bf_switchd describes it (bf-rt.json), for support/bfrt_server.h: names
 * of its tables, and which keys and data they have.
 */
#ifndef SML_TESTS_BFRT_PROGRAM_H
#define SML_TESTS_BFRT_PROGRAM_H

#include <jansson.h>

#define SLOTS	128
#define JOBS	"pipe.SmlIngress.job_lookup.jobs"
#define RANKS	"pipe.SmlIngress.admission.ranks"
#define MEMBERS "pipe.SmlIngress.admission.members"
#define PLACES	"pipe.SmlIngress.placement.slots"
#define PEERS	"pipe.SmlEgress.addressing.peers"
#define HOSTS	"pipe.SmlIngress.forwarding.hosts"
#define FATES	"pipe.SmlIngress.fates"
#define USES	"pipe.SmlIngress.slot_step.slot_use"
#define SEEN_0	"pipe.SmlIngress.slot_step.slot_seen_0"
#define SEEN_1	"pipe.SmlIngress.slot_step.slot_seen_1"

/*
 * The file that SML_BF_RT names, which the real compiler has written. Without it, a description
 * that is written here, with SLOTS slots. The caller owns the reference.
 */
json_t *bfrt_program(void);

/* The tables that every program has: those of the multicast engine. The caller owns the reference.
 */
json_t *bfrt_fixed_tables(void);

#endif
