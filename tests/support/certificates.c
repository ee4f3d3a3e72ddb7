/* SPDX-License-Identifier: BSD-3-Clause */
/* See certificates.h. */
#include "support/certificates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"

static char folder[64];
static char paths[5][96];

static const char *path(unsigned i, const char *name)
{
	snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder, name);
	return paths[i];
}

static bool make(void)
{
	const char *script = getenv("SML_CERTIFICATES");
	char command[512];

	if (folder[0] != '\0')
		return true;
	if (!sml_tls_is_built() || script == NULL ||
	    system("openssl version >/dev/null 2>&1") != 0) /* NOLINT(cert-env33-c): a test */
		return false;
	snprintf(folder, sizeof(folder), "/tmp/sml-certificates-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(command, sizeof(command), "'%s' '%s'", script, folder);
	assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a test */
	return true;
}

bool certificates_of_switch(struct sml_switch_config *config)
{
	if (!make())
		return false;
	config->tls.certificate = path(0, "switch.pem");
	config->tls.key = path(1, "switch.key");
	config->tls.authority = path(2, "authority.pem");
	return true;
}

struct sml_tls *certificates_open_switch(void)
{
	struct sml_switch_config config;
	struct sml_tls *tls;

	sml_switch_config_init(&config);
	if (!certificates_of_switch(&config))
		return NULL;
	if (sml_tls_open(&tls, SML_TLS_SWITCH, &config.tls, &config.tls_names) < 0)
		fail_msg("%s", sml_error_last());
	return tls;
}

struct sml_tls *certificates_need_switch(void)
{
	struct sml_tls *of_switch = certificates_open_switch();

	if (of_switch)
		return of_switch;
	printf("this build has no TLS, or this machine no openssl command\n");
	exit(77);
}

struct sml_tls *certificates_of_worker(void)
{
	const struct sml_tls_files files = {path(3, "worker.pem"), path(4, "worker.key"),
					    path(2, "authority.pem"), NULL};
	struct sml_tls *tls;

	if (sml_tls_open(&tls, SML_TLS_WORKER, &files, &sml_tls_variables) < 0)
		fail_msg("%s", sml_error_last());
	return tls;
}

void certificates_remove(void)
{
	char command[96];

	if (folder[0] == '\0')
		return;
	snprintf(command, sizeof(command), "rm -r '%s'", folder);
	assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a test */
}
