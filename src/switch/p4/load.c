/* SPDX-License-Identifier: BSD-3-Clause */
/* The modules that control P4 switches: see target.h. A module is never unloaded. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/word.h"
#include "net/address.h"
#include "switch/p4/internal.h"

#define PROTOCOL_MARK "://"

/* One for each protocol. A target without a protocol has the first one. */
static const struct module {
	const char *protocol, *file, *folder, *needs;
} modules[] = {
	{"thrift", "libswitchml-p4-bmv2.so", "src/switch/p4/thrift",
	 "Thrift's C library (libthrift-c-glib-dev, thrift-compiler)"},
	{"bfrt", "libswitchml-p4-bfrt.so", "src/switch/p4/bfrt", "gRPC's C core (libgrpc-dev)"},
};

const struct sml_p4_services sml_p4_services = {
	.version = SML_P4_TARGET_VERSION,
	.error_set = sml_error_set,
};

static int bad(void)
{
	return sml_error_set(-EINVAL,
			     "--dataplane p4 needs --target HOST:PORT, the P4 switch's control "
			     "port (Thrift), or --target bfrt://HOST:PORT[/DEVICE]");
}

/* The module of a protocol; its length is 0 if there is none. */
static const struct module *find_module(const char *protocol, size_t length)
{
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (length == 0 || (strncmp(protocol, modules[i].protocol, length) == 0 &&
				    modules[i].protocol[length] == '\0'))
			return &modules[i];
	return NULL;
}

/* "HOST:PORT[/DEVICE]" */
static bool parse_address(const char *text, struct sml_p4_address *address)
{
	size_t length = strcspn(text, "/");
	struct sml_host_port at;
	long device = 0;

	if (!sml_host_port_parse(text, length, &at) || !at.has_port || at.host[0] == '\0')
		return false;
	if (text[length] == '/' && !sml_parse_number(text + length + 1, 0, INT32_MAX, &device))
		return false;
	*address = (struct sml_p4_address){.port = at.port, .device = (uint32_t)device};
	snprintf(address->host, sizeof(address->host), "%s", at.host);
	return true;
}

/* The directory of this code, with a trailing slash. It may be part of a program with any name. */
static bool find_folder(char folder[PATH_MAX])
{
	ssize_t length;
	char *slash;
	Dl_info own;

	if (dladdr(&sml_p4_services, &own) && own.dli_fname && own.dli_fname[0] == '/') {
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

/*
 * Beside the program or library that this code lies in, where the build or the package put it, and
 * where the package installs it: nowhere else. NULL: dlerror() says why. It is never unloaded,
 * because its threads may still run.
 */
static void *load_file(const struct module *module)
{
	char path[PATH_MAX + 256], folder[PATH_MAX];
	const char *const places[][3] = {
		{"", "", ""},
		{"switchml/", "", ""},
		{"", module->folder, "/"},
		{"../", module->folder, "/"},
	};
	bool found = find_folder(folder);
	void *loaded = NULL;

	for (size_t i = 0; found && !loaded && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s%s%s%s", folder, places[i][0], places[i][1],
			 places[i][2], module->file);
		loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	snprintf(path, sizeof(path), "%s/%s", SML_P4_MODULE_FOLDER, module->file);
	return loaded ? loaded : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static int load(const struct module *module, const struct sml_p4_target_operations **operations)
{
	void *loaded = load_file(module);

	if (loaded == NULL)
		return sml_error_set(-ENOENT,
				     "--dataplane p4: its module cannot be loaded (%.255s): build "
				     "and install it with %s",
				     dlerror(), module->needs);
	*operations = dlsym(loaded, SML_P4_TARGET_ENTRY);
	if (*operations == NULL || strcmp((*operations)->version, SML_P4_TARGET_VERSION) != 0)
		return sml_error_set(-EINVAL, "--dataplane p4: %s is of another build of SwitchML",
				     module->file);
	return 0;
}

int sml_p4_load(const char *text, struct sml_p4_address *address,
		const struct sml_p4_target_operations **operations)
{
	const char *mark = text == NULL ? NULL : strstr(text, PROTOCOL_MARK);
	const struct module *module;

	if (text == NULL)
		return bad();
	module = find_module(text, mark == NULL ? 0 : (size_t)(mark - text));
	if (module == NULL || mark == text ||
	    !parse_address(mark == NULL ? text : mark + strlen(PROTOCOL_MARK), address))
		return bad();
	return load(module, operations);
}
