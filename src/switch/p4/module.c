/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding and loading modules: see module.h. */
#include "switch/p4/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The directory of this code, with a trailing slash. It may be part of a program with any name. */
static bool find_folder(const void *own_code, char folder[PATH_MAX])
{
	ssize_t length;
	char *slash;
	Dl_info own;

	if (dladdr(own_code, &own) && own.dli_fname && own.dli_fname[0] == '/') {
		snprintf(folder, PATH_MAX, "%s", own.dli_fname);
	} else {
		length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
		if (length < 0)
			return false;
		folder[length] = '\0';
	}
	slash = strrchr(folder, '/');
	if (slash)
		slash[1] = '\0';
	return slash != NULL;
}

/* From the folder that this code lies in: an installed library or program, or the build's. */
static void *load_beside(const void *own, const char *file, const char *build_folder)
{
	const char *const folders[][3] = {
		{"", "", ""},
		{"switchml/", "", ""},
		{"", build_folder, "/"},
		{"../", build_folder, "/"},
	};
	char path[PATH_MAX + 256], folder[PATH_MAX];

	if (!find_folder(own, folder))
		return NULL;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		void *module;

		snprintf(path, sizeof(path), "%s%s%s%s%s", folder, folders[i][0], folders[i][1],
			 folders[i][2], file);
		module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (module)
			return module;
	}
	return NULL;
}

void *sml_module_load(const void *own, const char *file, const char *build_folder,
		      const char *installed, char *why, size_t why_bytes)
{
	void *module = load_beside(own, file, build_folder);

	if (module == NULL)
		module = dlopen(installed, RTLD_NOW | RTLD_LOCAL);
	if (module == NULL)
		snprintf(why, why_bytes, "%s", dlerror());
	return module;
}
