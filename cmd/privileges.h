/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the daemon gives up once its sockets are open: root, capabilities, new
 * privileges, and system calls that it does not need.
 */
#ifndef SML_CMD_PRIVILEGES_H
#define SML_CMD_PRIVILEGES_H

#include <stdbool.h>

/*
 * As struct sml_switch_config's seal(): before there are threads, so that all inherit it.
 * Root becomes nobody. keeps_bpf: CAP_BPF stays, for maps. Warns on stderr of what fails.
 */
void sml_privileges_drop(bool keeps_bpf);

/* Of all threads: only these system calls from now on. Nothing where libseccomp is not built in. */
void sml_privileges_filter(bool keeps_bpf);

#endif
