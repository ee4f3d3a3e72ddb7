/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `switchml doctor` share. */
#ifndef SML_CMD_DOCTOR_DOCTOR_H
#define SML_CMD_DOCTOR_DOCTOR_H

#define DOCTOR_MAX_FINDINGS 512 /* a few of each of 64 switches */

enum doctor_level { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_PROBLEM, DOCTOR_LEVELS };

struct doctor_finding {
	enum doctor_level level;
	const char *check; /* what was checked: "receive buffer" */
	char fact[256];	   /* what was found */
	char fix[256];	   /* what to do; "" if nothing */
};

struct doctor {
	const char *switch_address; /* a list; NULL if no switch is checked */
	const char *interface;	    /* SWITCHML_SOCKET_IFNAME; NULL for that of the route */
	struct doctor_finding findings[DOCTOR_MAX_FINDINGS], left_out;
	struct doctor_finding *latest;
	unsigned n;
};

/* findings.c: note a finding. */
__attribute__((format(printf, 4, 5))) void doctor_say(struct doctor *doctor,
						      enum doctor_level level, const char *check,
						      const char *fact, ...);
/* Say how to fix the last finding. */
__attribute__((format(printf, 2, 3))) void doctor_fix(struct doctor *doctor, const char *fix, ...);

/* How many there are. */
unsigned doctor_problems(const struct doctor *doctor);

/* host.c: this machine. */
void doctor_check_host(struct doctor *doctor);

/* switch.c: the path to each switch of a list, which may be NULL. */
void doctor_check_switches(struct doctor *doctor, const char *list);

#endif
