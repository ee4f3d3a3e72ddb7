/* SPDX-License-Identifier: BSD-3-Clause */
/* The modules that control P4 switches: see target.h. A module is never unloaded. */
#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "base/module.h"
#include "switch/p4/internal.h"

#define MODULE "libswitchml-p4-bmv2.so"

const struct sml_p4_services sml_p4_services = {
	.version = SML_P4_TARGET_VERSION,
	.error_set = sml_error_set,
};

int sml_p4_load(const struct sml_p4_target_operations **operations)
{
	char why[256];
	void *module = sml_module_load(&sml_p4_services, MODULE, "switch/p4/thrift",
				       SML_P4_MODULE_PATH, why, sizeof(why));

	if (module == NULL)
		return sml_error_set(-ENOENT,
				     "--dataplane p4: its module cannot be loaded (%s): build and "
				     "install it with Thrift's C library (libthrift-c-glib-dev, "
				     "thrift-compiler)",
				     why);
	*operations = dlsym(module, SML_P4_TARGET_ENTRY);
	if (*operations == NULL || strcmp((*operations)->version, SML_P4_TARGET_VERSION) != 0)
		return sml_error_set(-EINVAL, "--dataplane p4: %s is of another build of SwitchML",
				     MODULE);
	return 0;
}
