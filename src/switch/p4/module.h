/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Modules: parts that are loaded when they are used, because they need libraries that are not
 * installed everywhere.
 */
#ifndef SML_SWITCH_P4_MODULE_H
#define SML_SWITCH_P4_MODULE_H

#include <stddef.h>

/*
 * The module `file`, for dlsym(). It is looked for beside the program or library that `own` lies
 * in, where the build (build_folder, from the build's root) or the package put it, and where the
 * system finds libraries: nowhere else. NULL: `why` says the reason. It is never unloaded, because
 * its threads may still run.
 */
void *sml_module_load(const void *own, const char *file, const char *build_folder,
		      const char *installed, char *why, size_t why_bytes);

#endif
