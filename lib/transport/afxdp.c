/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The AF_XDP transport is a module (lib/transport/afxdp/), loaded when the first one is opened, and
 * then never unloaded, because its threads may still run. It is looked for beside the library,
 * where the build or the package put it, and where the system finds libraries; nowhere else.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "lib/transport/afxdp/module.h"
#include "lib/transport/transport.h"
#include "switchml.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sml_afxdp_open_fn open_module;
static char why_not[256];

static const struct sml_afxdp_services services = {
	.version = SML_AFXDP_VERSION,
	.udp = &sml_transport_udp,
	.log = sml_log,
	.error_set = sml_error_set,
	.error_last = sml_error_last,
};

/* The directory of this code, with a trailing slash. It may be part of a program with any name. */
static bool find_folder(char folder[PATH_MAX])
{
	ssize_t length;
	char *slash;
	Dl_info own;

	if (dladdr(&services, &own) && own.dli_fname && own.dli_fname[0] == '/') {
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
static void *load_beside(void)
{
	static const char *const folders[] = {"", "switchml/", "afxdp/", "lib/transport/afxdp/",
					      "../lib/transport/afxdp/"};
	char path[PATH_MAX + 64], folder[PATH_MAX];

	if (!find_folder(folder))
		return NULL;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		void *module;

		snprintf(path, sizeof(path), "%s%s%s", folder, folders[i], SML_AFXDP_MODULE);
		module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (module)
			return module;
	}
	return NULL;
}

static void load(void)
{
	void *module = load_beside();

	if (module == NULL)
		module = dlopen(SML_AFXDP_MODULE_PATH, RTLD_NOW | RTLD_LOCAL);
	if (module == NULL) {
		snprintf(why_not, sizeof(why_not), "%s", dlerror());
		return;
	}
	open_module = (sml_afxdp_open_fn)dlsym(module, SML_AFXDP_ENTRY);
	if (open_module == NULL)
		snprintf(why_not, sizeof(why_not), "%s has no %s", SML_AFXDP_MODULE,
			 SML_AFXDP_ENTRY);
}

static int afxdp_open(struct sml_transport **opened, const struct sml_transport_config *config)
{
	pthread_once(&once, load);
	if (open_module == NULL)
		return sml_error_set(
			SML_ERROR_CONFIG,
			"SWITCHML_TRANSPORT=afxdp: its module cannot be loaded (%s): build and "
			"install it with libxdp and libbpf, or unset the variable to use UDP",
			why_not);
	return open_module(opened, config, &services);
}

const struct sml_transport_ops sml_transport_afxdp = {
	.name = "afxdp",
	.open = afxdp_open,
};
