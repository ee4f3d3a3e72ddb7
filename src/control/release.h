/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs answer to --version. */
#ifndef SML_CONTROL_RELEASE_H
#define SML_CONTROL_RELEASE_H

/*
 * "0.1.0 (control protocol 22, commit 1234abcd)". Ranks and switches work together if they have the
 * same protocol, whatever their release is called.
 */
const char *sml_release_text(void);

#endif
