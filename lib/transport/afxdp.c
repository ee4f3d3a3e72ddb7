/* SPDX-License-Identifier: BSD-3-Clause */
/* The AF_XDP transport is a module (lib/transport/afxdp/), loaded when the first one is opened. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "base/error.h"
#include "base/module.h"
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

static void load(void)
{
	void *module = sml_module_load(&services, SML_AFXDP_MODULE, "lib/transport/afxdp",
				       SML_AFXDP_MODULE_PATH, why_not, sizeof(why_not));

	if (module == NULL)
		return;
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
