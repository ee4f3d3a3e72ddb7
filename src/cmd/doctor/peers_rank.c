/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of `switchml doctor --peers`: tells rank 0 about itself, and does what rank 0 asks. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "cmd/doctor/peers.h"
#include "control/text.h"
#include "lib/transport/interface.h"
#include "net/connect.h"

/*
 * Rank 0 may be busy with others for so long, between two messages: it asks one host after the
 * other about the switches. If it ends, the connection does.
 */
#define PATIENCE_S  600
#define CONNECT_MS  2000
#define PAUSE_MS    100
#define TRIAL_MS    20000
#define TRIAL_COUNT 65536
#define MOST_FAULTS 32

#define RANK_OF(peers) ((peers)->config->rank)

struct rank {
	const struct peers *peers;
	struct sml_talk talk;
	int udp, tcp, udp_port, tcp_port;
	SmlControl__Envelope
		*plan; /* the first task to probe: what it names is used until the end */
	struct doctor at_switch;
	char error[SML_TEXT_BYTES];
};

/* ---- hello ---- */

static int say_hello(struct rank *self)
{
	const struct sml_config *config = self->peers->config;
	char name[256] = "?", machine[SML_HOST_MACHINE_BYTES] = "";
	char texts[PEERS_SETTINGS][PEERS_SETTING_BYTES], *settings[PEERS_SETTINGS];
	SmlControl__Hello hello = SML_CONTROL__HELLO__INIT;

	if (gethostname(name, sizeof(name) - 1) < 0)
		snprintf(name, sizeof(name), "?");
	if (config->shared_memory)
		sml_host_machine(machine);
	peers_settings(config, texts);
	for (unsigned i = 0; i < PEERS_SETTINGS; i++)
		settings[i] = texts[i];
	hello.protocol = SML_CONTROL_PROTOCOL;
	hello.version = (char *)(uintptr_t)SML_VERSION_STRING;
	hello.rank = (uint32_t)config->rank;
	hello.name = name;
	hello.host = sml_host_hash();
	hello.machine = machine;
	hello.udp_port = (uint32_t)self->udp_port;
	hello.tcp_port = (uint32_t)self->tcp_port;
	hello.settings = settings;
	hello.n_settings = PEERS_SETTINGS;
	return sml_talk_send(&self->talk, sml_envelope(HELLO, hello, &hello));
}

/* ---- what rank 0 asks for ---- */

/* This host's path to all switches: what is not fine. */
static void check_switches(struct rank *self, SmlControl__Done *done)
{
	static SmlControl__Finding findings[MOST_FAULTS], *list[MOST_FAULTS];
	struct doctor *doctor = &self->at_switch;

	doctor->interface = self->peers->config->interface;
	doctor_check_switches(doctor, self->peers->settings.config.switch_address);
	for (unsigned i = 0; i < doctor->n && done->n_findings < MOST_FAULTS; i++) {
		SmlControl__Finding *finding = &findings[done->n_findings];

		if (doctor->findings[i].level == DOCTOR_OK)
			continue;
		sml_control__finding__init(finding);
		finding->level = doctor->findings[i].level;
		finding->fact = doctor->findings[i].fact;
		finding->fix = doctor->findings[i].fix;
		list[done->n_findings++] = finding;
	}
	done->findings = list;
}

/* The job itself, for one sum. */
static void try_out(struct rank *self, const char *name, SmlControl__Done *done)
{
	static float values[TRIAL_COUNT];
	struct sml_config config = *self->peers->config;
	uint64_t begun_ns = sml_now_ns();
	struct sml_context *job = NULL;
	int error, closed;

	config.job = name;
	config.timeout_ms = TRIAL_MS;
	config.summary = 0;
	for (int i = 0; i < TRIAL_COUNT; i++)
		values[i] = (float)(i % 97);
	error = sml_open(&job, &config);
	if (error == 0)
		error = sml_allreduce(job, values, values, TRIAL_COUNT, SML_FLOAT32, SML_AVG, NULL,
				      NULL);
	for (int i = 0; error == 0 && i < TRIAL_COUNT; i++)
		if (values[i] != (float)(i % 97))
			error = SML_ERROR_PROTOCOL;
	done->took_ms = (double)(sml_now_ns() - begun_ns) / 1e6;
	if (error)
		snprintf(self->error, sizeof(self->error), "%s", sml_error_text(job));
	closed = sml_close(job);
	if (error == 0 && closed)
		snprintf(self->error, sizeof(self->error), "%s", sml_error_text(NULL));
	done->error = error ? error : closed;
	done->text = self->error;
}

static void do_task(struct rank *self, SmlControl__Envelope *message)
{
	const SmlControl__Task *task = message->task;
	SmlControl__Done done = SML_CONTROL__DONE__INIT;

	switch (task->what) {
	case SML_CONTROL__TASK__WHAT__PROBE:
		if (self->plan == NULL) {
			self->plan = message;
			peers_probe_begin(task, self->peers->settings.config.interface, self->udp);
		}
		peers_probe(&done);
		break;
	case SML_CONTROL__TASK__WHAT__SWITCHES:
		check_switches(self, &done);
		break;
	case SML_CONTROL__TASK__WHAT__TRIAL:
		try_out(self, task->job, &done);
		break;
	default:
		break;
	}
	done.number = task->number;
	done.time_ms = (double)sml_clock_ns(CLOCK_REALTIME) / 1e6;
	(void)sml_talk_send(&self->talk, sml_envelope(DONE, done, &done));
	if (message != self->plan)
		sml_control__envelope__free_unpacked(message, NULL);
}

/* Until rank 0 says that this was all. False: it ended before, or refuses this rank. */
static bool serve(struct rank *self, uint64_t patience_ns)
{
	SmlControl__Envelope *message;

	while (sml_talk_receive(&self->talk, sml_now_ns() + patience_ns, &message) == 0) {
		bool refused = message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT;

		if (!refused && message->task->what != SML_CONTROL__TASK__WHAT__END) {
			do_task(self, message);
			continue;
		}
		if (refused)
			sml_text_copy(self->talk.text, sizeof(self->talk.text),
				      message->abort->text);
		sml_control__envelope__free_unpacked(message, NULL);
		return !refused;
	}
	return false;
}

/* ---- set-up ---- */

int peers_open(int type, const struct sml_port_range *ports, int *fd)
{
	struct sml_listen_address local;
	socklen_t length = sizeof(local.address);
	int error = sml_listen_address_parse(NULL, 0, &local), on = 1;

	*fd = error ? error : sml_listen_address_socket(&local, type);
	if (*fd < 0)
		return *fd;
	/* For one agreed port: connections of a job that has ended do not count. */
	if (type == SOCK_STREAM && ports->first && ports->first == ports->last)
		setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	error = sml_port_range_bind(ports, &local.address, *fd);
	if (error == 0 && type == SOCK_STREAM && listen(*fd, PEERS_MAX) < 0)
		error = -errno;
	if (error == 0 && getsockname(*fd, &local.address.any, &length) < 0)
		error = -errno;
	return error ? error : ntohs(local.address.v4.sin_port);
}

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

static bool open_sockets(struct rank *self)
{
	const struct sml_settings *settings = &self->peers->settings;
	struct sml_port_range ports = settings->ports;
	const char *names = settings->config.ports;

	self->udp_port = peers_open(SOCK_DGRAM, &ports, &self->udp);
	spare_port(&ports, (unsigned)settings->config.master_port);
	self->tcp_port = peers_open(SOCK_STREAM, &ports, &self->tcp);
	if (self->udp_port > 0 && self->tcp_port > 0)
		return true;
	fprintf(stderr, "switchml doctor: rank %d: no %s port%s%s can be opened: %s\n",
		RANK_OF(self->peers), self->udp_port > 0 ? "TCP" : "UDP",
		names ? " of SWITCHML_PORTS=" : "", names ? names : "",
		strerror(-(self->udp_port > 0 ? self->tcp_port : self->udp_port)));
	return false;
}

int peers_bind(const void *filter, const union sml_sockaddr *to, int fd)
{
	const struct sml_port_range any = {0};
	struct sml_interface interface;
	int error = sml_interface_choose(&interface, filter, to, "rank 0");

	return error ? error : sml_interface_bind(&interface, &any, fd);
}

/* Returns a socket; or a negative errno, and says why. */
static int find_rank_0(const struct peers *peers, const char *host, unsigned wait_s)
{
	uint64_t until_ns = sml_now_ns() + wait_s * SML_NS_PER_SEC;
	/* Rank 0 reaches itself by the loopback device. */
	const char *filter = RANK_OF(peers) ? peers->settings.config.interface : NULL;
	struct sml_connect wish = {.host = host,
				   .port = (uint16_t)peers->settings.config.master_port,
				   .timeout_ms = CONNECT_MS,
				   .prepare = filter ? peers_bind : NULL,
				   .self = filter};
	int fd;

	/* Rank 0 may not be there yet. */
	do
		fd = sml_connect(&wish);
	while (fd < 0 && fd != SML_ERROR_CONFIG && sml_now_ns() < until_ns &&
	       poll(NULL, 0, PAUSE_MS) == 0);
	if (fd == SML_ERROR_CONFIG)
		fprintf(stderr, "switchml doctor: rank %d: %s\n", RANK_OF(peers), sml_error_last());
	else if (fd < 0)
		fprintf(stderr,
			"switchml doctor: rank %d: rank 0 did not answer at %s port %u within %u "
			"s: %s. Is it running, is SWITCHML_MASTER_ADDR (MASTER_ADDR) its host, and "
			"do firewalls let TCP pass to that port?\n",
			RANK_OF(peers), host, wish.port, wait_s,
			wish.unknown ? "the name has no address" : wish.why);
	return fd;
}

int peers_rank_run(const struct peers *peers, const char *host, unsigned wait_s)
{
	static struct rank self;
	bool good = false;
	int fd;

	self.peers = peers;
	fd = open_sockets(&self) ? find_rank_0(peers, host, wait_s) : -1;
	if (fd < 0)
		return 1;
	/* All certificates are of workers: rank 0's need not name its host. */
	if (sml_talk_open(&self.talk, fd, peers->settings.tls, NULL, "rank 0", &peers_rules) == 0) {
		self.talk.state = PEERS_RANK_0;
		good = say_hello(&self) == 0 &&
		       serve(&self, (wait_s + PATIENCE_S) * SML_NS_PER_SEC);
	}
	if (!good)
		fprintf(stderr, "switchml doctor: rank %d: %s\n", RANK_OF(peers),
			self.talk.text[0] ? self.talk.text : "rank 0 ended before it was done");
	sml_talk_close(&self.talk);
	return good ? 0 : 1;
}
