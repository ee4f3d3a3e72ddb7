/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole switch in this process: see switch.h. */
#include "switch/switch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "net/address.h"
#include "switch/control/server.h"

/*
 * Port 0: how often to try to find a number that is free for both TCP and UDP.
 */
#define PORT_TRIES 32

struct sml_switch {
	struct sml_server server;
	pthread_t thread;
};

void sml_switch_config_init(struct sml_switch_config *config)
{
	*config = (struct sml_switch_config){
		.max_slots = 4096,
		.max_jobs = 64,
		.threads = 1,
		.heartbeat_ms = 60000,
		.max_strangers = 1024,
		.greeting_ms = 10000,
		.debug = SML_LOG_WARN,
		.tls_names = {"--tls-certificate", "--tls-key", "--tls-authority", NULL},
		.job_key_names = {"job_key", "SWITCHML_JOB_KEY_FILE (--key-file)"},
	};
}

static void *serve_connections(void *argument)
{
	struct sml_switch *self = argument;

	sml_server_run(&self->server);
	return NULL;
}

static int open_server(struct sml_switch *self, const struct sml_switch_config *config,
		       const char *address, uint16_t port)
{
	int rc = 0;

	for (int i = 0; i < PORT_TRIES; i++) {
		memset(&self->server, 0, sizeof(self->server));
		self->server.config = *config;
		rc = sml_server_open(&self->server, address[0] ? address : NULL, port);
		if (rc == 0)
			return 0;
		sml_server_close(&self->server);
		if (port != 0 || rc != -EADDRINUSE)
			break;
	}
	return rc;
}

int sml_switch_open(struct sml_switch **opened, const struct sml_switch_config *config)
{
	struct sml_switch *self;
	const char *listen = config->listen ? config->listen : "";
	struct sml_host_port at;
	int rc;

	*opened = NULL;
	if (!sml_host_port_parse(listen, strlen(listen), &at))
		return sml_error_set(
			-EINVAL,
			"'%s' of --listen is not an address: ADDR, ADDR:PORT, [V6]:PORT or :PORT",
			listen);
	self = calloc(1, sizeof(*self));
	if (self == NULL)
		return sml_error_set(-ENOMEM, "no memory for a switch");
	rc = open_server(self, config, at.host, at.has_port ? at.port : SML_DEFAULT_PORT);
	if (rc < 0)
		goto err_free;
	rc = sml_thread_start(&self->thread, "sml-control", serve_connections, self);
	if (rc < 0) {
		sml_error_set(rc, "the control plane's thread cannot be started: %s",
			      strerror(-rc));
		goto err_close;
	}
	*opened = self;
	return 0;

err_close:
	sml_server_close(&self->server);
err_free:
	free(self);
	return rc;
}

uint16_t sml_switch_port(const struct sml_switch *opened)
{
	return opened->server.port;
}

void sml_switch_describe(const struct sml_switch *opened, char *text, size_t bytes)
{
	const struct sml_jobs *jobs = &opened->server.jobs;

	jobs->operations->describe(jobs->dataplane, text, bytes);
}

int sml_switch_reload(struct sml_switch *opened, const struct sml_switch_config *config)
{
	return sml_server_reload(&opened->server, config);
}

uint64_t sml_switch_idle_ns(const struct sml_switch *opened)
{
	uint64_t ticked_ns = atomic_load_explicit(&opened->server.ticked_ns, memory_order_relaxed);
	uint64_t now_ns = sml_now_ns();

	return now_ns > ticked_ns ? now_ns - ticked_ns : 0;
}

uint8_t *sml_switch_status(struct sml_switch *opened, uint32_t timeout_ms, size_t *n)
{
	return sml_server_status(&opened->server, timeout_ms, n);
}

bool sml_switch_close_told(struct sml_switch *opened, char *text, size_t bytes)
{
	const struct sml_jobs *jobs = &opened->server.jobs;
	bool told;

	sml_server_stop(&opened->server);
	pthread_join(opened->thread, NULL);
	told = jobs->disagreement.error == SML_ERROR_MISMATCH && jobs->config.only_job &&
	       strcmp(jobs->disagreement.job, jobs->config.only_job) == 0;
	if (told)
		snprintf(text, bytes, "%s", jobs->disagreement.text);
	sml_server_close(&opened->server);
	free(opened);
	return told;
}

void sml_switch_close(struct sml_switch *opened)
{
	char unused[SML_SENTENCE_BYTES];

	if (opened)
		(void)sml_switch_close_told(opened, unused, sizeof(unused));
}
