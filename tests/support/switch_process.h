/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Switches that can be killed: each one is a process, the test's own program called with a port.
 * They have the certificates or the job key of the environment: switch_process_set_key().
 */
#ifndef SML_TESTS_SWITCH_PROCESS_H
#define SML_TESTS_SWITCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct switch_process {
	pid_t pid;
	uint16_t port;	    /* 0: any, before it starts for the first time */
	const char *parent; /* "127.0.0.1:PORT": it is a leaf of that switch; NULL: of none */
	bool is_silent;	    /* it logs nothing */
};

/* First in main(): serves, and does not return, if this program was called as a switch. */
void switch_process_main(int argc, char **argv);

/* Start it at its port, and wait until it can be used. */
void switch_process_start(struct switch_process *process);

/* A secret for SWITCHML_JOB_KEY_FILE of this process and of the switches; NULL: from now on, none.
 */
void switch_process_set_key(const char *secret);

/* SIGKILL, if it runs: its peers see only that their connections end. */
void switch_process_kill(struct switch_process *process);

#endif
