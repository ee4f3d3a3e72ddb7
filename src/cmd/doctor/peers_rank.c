/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of `switchml doctor --peers`: tells rank 0 about itself, and does what rank 0 asks. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "cmd/doctor/peers.h"
#include "cmd/shared/status_client.h"
#include "control/envelope.h"
#include "core/names.h"
#include "lib/host/identity.h"
#include "lib/settings/settings.h"

/*
 * Rank 0 may be busy with others for so long, between two messages: it asks one host after the
 * other about the switches. If it ends, the connection does.
 */
#define PATIENCE_MS 600000
#define TRIAL_MS    20000
#define TRIAL_COUNT 65536

struct rank {
	const struct sml_config *config;
	struct peers_link link;
	struct peers_sockets sockets;
	struct sml_context *job;
};

/* ---- hello ---- */

static const char *text_of(const char *text)
{
	return text ? text : "";
}

static json_t *settings_of(const struct sml_config *config)
{
	return json_pack("{s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:b}", "SWITCHML_JOB",
			 text_of(config->job), "SWITCHML_SWITCH", text_of(config->switch_address),
			 "SWITCHML_WORLD_SIZE", config->world_size, "SWITCHML_WIRE",
			 sml_wire_name(config->wire), "SWITCHML_THREADS", config->threads,
			 "SWITCHML_SLOTS", config->slots, "SWITCHML_MTU", config->mtu,
			 "SWITCHML_TIMEOUT", config->timeout_ms, "SWITCHML_HEARTBEAT",
			 config->heartbeat_ms, "SWITCHML_PORTS", text_of(config->ports),
			 "SWITCHML_JOB_KEY_FILE", config->job_key_file != NULL);
}

static json_t *hello(const struct rank *self)
{
	char name[256] = "?", machine[SML_HOST_MACHINE_BYTES] = "", host[24];

	if (gethostname(name, sizeof(name) - 1) < 0)
		snprintf(name, sizeof(name), "?");
	if (self->config->shared_memory)
		sml_host_machine(machine);
	snprintf(host, sizeof(host), "%016llx", (unsigned long long)sml_host_hash());
	return json_pack("{s:s, s:i, s:s, s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:o}", "switchml",
			 "hello", "rank", self->config->rank, "name", name, "machine", machine,
			 "host", host, "pid", (int)getpid(), "version", SML_VERSION_STRING,
			 "protocol", SML_CONTROL_PROTOCOL, "udp", self->sockets.udp_port, "tcp",
			 self->sockets.tcp_port, "settings", settings_of(self->config));
}

/* ---- what rank 0 asks for ---- */

static json_t *time_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return json_pack("{s:f}", "time_ms", (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6);
}

/* This host's path to all switches: what is not fine. */
static json_t *switch_faults(const struct sml_config *config)
{
	const char *list = config->switch_address ? config->switch_address : "";
	struct doctor *doctor = calloc(1, sizeof(*doctor));
	json_t *faults = json_array();
	char address[320];

	while (doctor && strcasecmp(list, "embedded") != 0 &&
	       sml_switch_list_next(&list, address, sizeof(address))) {
		doctor->interface = config->interface;
		doctor_check_switch(doctor, address);
	}
	for (unsigned i = 0; doctor && i < doctor->n && json_array_size(faults) < 32; i++) {
		const struct doctor_finding *finding = &doctor->findings[i];

		if (finding->level != DOCTOR_OK)
			json_array_append_new(
				faults, json_pack("{s:i, s:s, s:s, s:s}", "level",
						  (int)finding->level, "check", finding->check,
						  "fact", finding->fact, "fix", finding->fix));
	}
	free(doctor);
	return faults;
}

/* The job itself, for one sum. */
static json_t *open_trial(struct rank *self, const char *name)
{
	struct sml_config config = *self->config;
	uint64_t begun_ns = sml_now_ns();
	float *values = calloc(TRIAL_COUNT, sizeof(*values));
	int error;

	config.job = name;
	config.timeout_ms = TRIAL_MS;
	for (int i = 0; values && i < TRIAL_COUNT; i++)
		values[i] = (float)(i % 97);
	config.summary = 0;
	error = sml_open(&self->job, &config);
	if (error == 0 && values)
		error = sml_allreduce(self->job, values, values, TRIAL_COUNT, SML_FLOAT32, SML_AVG,
				      NULL, NULL);
	for (int i = 0; error == 0 && values && i < TRIAL_COUNT; i++)
		if (values[i] != (float)(i % 97))
			error = SML_ERROR_PROTOCOL;
	free(values);
	return json_pack("{s:i, s:s, s:f}", "error", error, "text",
			 error ? sml_error_text(self->job) : "", "ms",
			 (double)(sml_now_ns() - begun_ns) / 1e6);
}

static json_t *close_trial(struct rank *self)
{
	int error = sml_close(self->job);

	self->job = NULL;
	return json_pack("{s:i, s:s}", "error", error, "text", error ? sml_error_text(NULL) : "");
}

static json_t *answer(struct rank *self, const char *wish, const json_t *message)
{
	const char *job = json_string_value(json_object_get(message, "job"));

	if (strcmp(wish, "time") == 0)
		return time_now();
	if (strcmp(wish, "probe") == 0)
		return json_pack("{s:o}", "report",
				 peers_probe(&self->link, &self->sockets, message));
	if (strcmp(wish, "switch") == 0)
		return json_pack("{s:o}", "switch", switch_faults(self->config));
	if (strcmp(wish, "open") == 0 && job)
		return open_trial(self, job);
	if (strcmp(wish, "close") == 0)
		return close_trial(self);
	return json_object();
}

/* Until rank 0 says that this was all. False: it ended before. */
static bool serve(struct rank *self, uint64_t deadline_ns)
{
	for (;;) {
		json_t *message = peers_link_receive(&self->link, deadline_ns);
		const char *wish = json_string_value(json_object_get(message, "do"));
		bool over = wish && strcmp(wish, "end") == 0;
		bool good =
			wish && (over || peers_link_send(&self->link, answer(self, wish, message)));

		json_decref(message);
		if (!good || over)
			return good;
		deadline_ns = sml_now_ns() + PATIENCE_MS * SML_NS_PER_MS;
	}
}

/* ---- set-up ---- */

/* Where the ranks meet, rank 0 listens: on the other side of that port there are more. */
static void spare_port(struct sml_port_range *ports, unsigned port)
{
	if (!sml_port_range_has(ports, port) || ports->first == ports->last)
		return;
	if (port - ports->first > (unsigned)ports->last - port)
		ports->last = (uint16_t)(port - 1);
	else
		ports->first = (uint16_t)(port + 1);
}

static int open_sockets(struct rank *self)
{
	struct sml_port_range ports = {0};

	if (self->config->ports)
		(void)sml_port_range_parse(self->config->ports, &ports);
	self->sockets.udp_port = peers_open(SOCK_DGRAM, &ports, &self->sockets.udp);
	spare_port(&ports, (unsigned)self->config->master_port);
	self->sockets.tcp_port = peers_open(SOCK_STREAM, &ports, &self->sockets.tcp);
	peers_choose_device(self->config->interface, self->sockets.device);
	if (self->sockets.udp_port > 0 && self->sockets.tcp_port > 0) {
		union sml_sockaddr own = {0};
		socklen_t length = sizeof(own);

		peers_bind_device(self->sockets.udp, self->sockets.device);
		getsockname(self->sockets.udp, &own.any, &length);
		self->sockets.v6 = own.any.sa_family == AF_INET6;
		return 0;
	}
	fprintf(stderr, "switchml doctor: rank %d: no %s port%s%s can be opened: %s\n",
		self->config->rank, self->sockets.udp_port > 0 ? "TCP" : "UDP",
		self->config->ports ? " of SWITCHML_PORTS=" : "", text_of(self->config->ports),
		strerror(-(self->sockets.udp_port > 0 ? self->sockets.tcp_port
						      : self->sockets.udp_port)));
	return 1;
}

static int run_rank(struct rank *self, const char *host, unsigned wait_s)
{
	uint64_t deadline_ns = sml_now_ns() + wait_s * SML_NS_PER_SEC;
	int error;

	if (open_sockets(self))
		return 1;
	/* Rank 0 reaches itself by the loopback device. */
	self->link.fd =
		peers_connect(host, (uint16_t)self->config->master_port,
			      self->config->rank ? self->config->interface : NULL, deadline_ns);
	if (self->link.fd == SML_ERROR_CONFIG) {
		fprintf(stderr, "switchml doctor: rank %d: %s\n", self->config->rank,
			sml_error_text(NULL));
		return 1;
	}
	if (self->link.fd < 0) {
		error = -self->link.fd;
		fprintf(stderr,
			"switchml doctor: rank %d: rank 0 did not answer at %s port %d within %u "
			"s: "
			"%s. Is it running, is SWITCHML_MASTER_ADDR (MASTER_ADDR) its host, and do "
			"firewalls let TCP pass to that port?\n",
			self->config->rank, host, self->config->master_port, wait_s,
			error == ENOENT ? "the name has no address" : strerror(error));
		return 1;
	}
	if (peers_link_send(&self->link, hello(self)) &&
	    serve(self, deadline_ns + PATIENCE_MS * SML_NS_PER_MS))
		return 0;
	fprintf(stderr, "switchml doctor: rank %d: rank 0 ended before it was done\n",
		self->config->rank);
	return 1;
}

int peers_rank_run(const struct sml_config *config, const char *host, unsigned wait_s)
{
	struct rank self = {
		.config = config, .link = {.fd = -1}, .sockets = {.udp = -1, .tcp = -1}};
	int status = run_rank(&self, host, wait_s);

	(void)sml_close(self.job);
	peers_link_close(&self.link);
	if (self.sockets.udp >= 0)
		close(self.sockets.udp);
	if (self.sockets.tcp >= 0)
		close(self.sockets.tcp);
	return status;
}
