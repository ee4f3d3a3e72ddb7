/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the daemon gives up once its sockets are open: root, capabilities, new
 * privileges, and system calls that it does not need.
 */
#ifndef SML_CMD_SWITCH_PRIVILEGES_H
#define SML_CMD_SWITCH_PRIVILEGES_H

#include <stdbool.h>

/*
 * The seal() of struct sml_switch_config: called before there are threads, so that all inherit it.
 * Root becomes nobody. keeps_bpf: keep CAP_BPF, for maps. Warns on stderr about failures.
 */
void sml_privileges_drop(bool keeps_bpf);

/* What the daemon goes on doing besides packets and messages. */
struct sml_privileges {
	bool bpf;      /* maps and interfaces, for XDP */
	bool files;    /* it reads its configuration file again */
	bool notifies; /* it talks to the service manager */
	bool connects; /* it is a leaf, and connects to its parent */
};

/*
 * Restrict all threads to these system calls from now on. Does nothing if libseccomp is not built
 * in.
 */
void sml_privileges_filter(const struct sml_privileges *kept);

#endif
