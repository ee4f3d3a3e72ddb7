/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens a job in four steps. After each step, all ranks know whether to go on:
 *
 *	1. rank 0's invitation: where the switch is, the job's name, and everything
 *	   else that must be the same on all ranks
 *	2. is every rank willing, and are all on one host?
 *	3. a trial: the job is opened and closed, within seconds
 *	4. the job itself
 *
 * A call of MPI has no deadline, and a job's deadline is an hour. The trial exists because a
 * rank that cannot reach the switch cannot tell the ranks that wait there.
 */
#include "bindings/mpi/communicator.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define TRIAL_MS 10000
/* Below the ports that the kernel gives to clients, so no client takes it meanwhile. */
#define PORT_MIN 20000
#define PORT_MAX 31999

struct invitation {
	uint64_t host;
	char host_name[256];
	char master[256]; /* the address for rank 0, if its environment gives one */
	char job[96];
	char switch_address[1024]; /* "" or "embedded": the ranks have the switch */
	char ports[16];		   /* that every rank may open; "": any */
	int port, timeout_ms, heartbeat_ms, wire, slots, threads;
};

/* Why this rank cannot take part. */
struct refusal {
	int error; /* 0: it can */
	char text[1024];
};

/* Set when the switch could not be reached: the next communicator does not try. */
static bool given_up; /* atomic */

static void refuse(struct refusal *refusal, int error, const char *text)
{
	refusal->error = error;
	snprintf(refusal->text, sizeof(refusal->text), "%s", text);
}

/* ---- do all ranks agree? ---- */

/*
 * Choose the refusing rank that gives the reason: first a rank with its own cause, then a
 * rank that only saw others fail, then a rank that gave up before.
 */
static int precedence_of(const struct sml_mpi_communicator *communicator,
			 const struct refusal *refusal)
{
	int n = communicator->size, rank = communicator->rank;

	switch (refusal->error) {
	case 0:
		return INT_MAX;
	case SML_ERROR_CLOSED:
		return 2 * n + rank;
	case SML_ERROR_RANK_DIED:
	case SML_ERROR_SWITCH_DIED:
	case SML_ERROR_TIMEOUT:
	case SML_ERROR_ABORTED:
		return n + rank;
	default:
		return rank;
	}
}

/* True if no rank refuses. *alike: was it true on every rank? */
static bool all_agree(struct sml_mpi_communicator *communicator, const struct refusal *refusal,
		      bool *alike)
{
	int mine[2] = {precedence_of(communicator, refusal), alike ? *alike : 1};
	int least[2] = {0, 0};

	if (PMPI_Allreduce(mine, least, 2, MPI_INT, MPI_MIN, communicator->comm) != MPI_SUCCESS)
		return false;
	if (alike)
		*alike = least[1];
	if (least[0] == INT_MAX)
		return true;
	if (refusal->error == SML_ERROR_UNREACHABLE || refusal->error == SML_ERROR_VERSION ||
	    refusal->error == SML_ERROR_CONFIG)
		__atomic_store_n(&given_up, true, __ATOMIC_RELAXED);
	if (least[0] == mine[0] && least[0] < 2 * communicator->size)
		fprintf(stderr,
			"switchml-mpi: MPI does the all-reduces of %d ranks, because of rank %d: "
			"%s\n",
			communicator->size, communicator->rank, refusal->text);
	return false;
}

/* ---- where the ranks are ---- */

static bool are_apart(const uint64_t *hosts, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < i; j++)
			if (hosts[i] == hosts[j])
				return false;
	return true;
}

/* Do the ranks have the switch? */
static bool is_embedded(const char *address)
{
	return address == NULL || *address == '\0' || strcasecmp(address, "embedded") == 0;
}

/* All ranks must call this; rank 0 gets the answer. */
static bool find_site(const struct sml_mpi_communicator *communicator, struct sml_mpi_site *site)
{
	uint64_t hosts[SML_MPI_MAX_RANKS] = {0}, host = sml_mpi_host();
	struct sml_config config = SML_CONFIG_INIT;

	if (PMPI_Gather(&host, 1, MPI_UINT64_T, hosts, 1, MPI_UINT64_T, 0, communicator->comm) !=
	    MPI_SUCCESS)
		return false;
	if (communicator->rank > 0)
		return true;
	site->ranks = communicator->size;
	site->apart = are_apart(hosts, site->ranks);
	/* A wrong setting is reported when the job begins. */
	site->embedded = sml_config_init(&config) != 0 || is_embedded(config.switch_address);
	return true;
}

/* ---- the threshold ---- */

/* Every communicator gets here, but the message is shown once. */
static void complain(const char *threshold)
{
	static int told; /* atomic */

	if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		fprintf(stderr,
			"switchml-mpi: SWITCHML_MPI_THRESHOLD=\"%s\" is not allowed: it must be a "
			"number of bytes, at least 1, for example 65536, 64K or 1M. MPI does all "
			"all-reduces\n",
			threshold);
}

static bool decide(const struct sml_mpi_site *site, struct sml_mpi_bytes *from)
{
	const char *threshold = getenv("SWITCHML_MPI_THRESHOLD");
	uint64_t bytes;

	if (threshold == NULL || *threshold == '\0') {
		sml_mpi_bytes_gaining(from, site);
		return true;
	}
	if (!sml_mpi_parse_bytes(threshold, &bytes)) {
		complain(threshold);
		return false;
	}
	sml_mpi_bytes_fill(from, bytes);
	return true;
}

/*
 * The first exchange. Rank 0's environment decides for all ranks (at most SML_MPI_MAX_RANKS): its
 * SWITCHML_MPI_THRESHOLD, or otherwise where a switch gains.
 */
static void agree(struct sml_mpi_communicator *communicator)
{
	struct sml_mpi_bytes *from = &communicator->from;
	struct sml_mpi_site site;

	communicator->state = SML_MPI_LEFT;
	communicator->why = SML_MPI_NO_SWITCH;
	if (!find_site(communicator, &site))
		return;
	/* A threshold is never 0: the setting is invalid, and rank 0 has said so. */
	if (communicator->rank == 0 && !decide(&site, from))
		sml_mpi_bytes_fill(from, 0);
	if (PMPI_Bcast(from, (int)(sizeof(*from) / sizeof(uint64_t)), MPI_UINT64_T, 0,
		       communicator->comm) == MPI_SUCCESS &&
	    from->of[0][0] != 0)
		communicator->state = SML_MPI_AGREED;
}

/* ---- the invitation ---- */

static void draw_name(struct invitation *invitation, const char *prefix)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		random = (uint64_t)(uintptr_t)invitation;
	snprintf(invitation->job, sizeof(invitation->job), "%.48s-mpi-%016" PRIx64, prefix, random);
}

/* Rank 0's own address. MASTER_ADDR is rank 0 of all ranks, which may be a different rank. */
static void set_master(struct invitation *invitation, const struct sml_config *config)
{
	if (sml_mpi_world_rank() == 0 && strncmp(config->master_address, "127.", 4) != 0)
		snprintf(invitation->master, sizeof(invitation->master), "%s",
			 config->master_address);
}

/* Where rank 0's control port may be: SWITCHML_MASTER_PORT or the next free port, SWITCHML_PORTS.
 */
static int choose_port(const struct sml_config *config)
{
	struct sml_mpi_ports ports = {PORT_MIN, PORT_MAX, true};
	const char *master_port = getenv("SWITCHML_MASTER_PORT");

	/* sml_config_init() has checked it. */
	if (config->ports)
		(void)sscanf(config->ports, "%d-%d", &ports.first, &ports.last);
	/* An empty variable counts as unset. */
	if (master_port && *master_port) {
		if (!config->ports)
			ports.last = 65535;
		ports.first = config->master_port;
		ports.random = false;
	}
	/* sml_open() refuses a port outside SWITCHML_PORTS, and says so. */
	if (ports.first > ports.last)
		return ports.first;
	return sml_mpi_free_port(&ports);
}

static void invite(struct invitation *invitation, struct refusal *refusal,
		   const struct sml_config *config)
{
	const char *address = config->switch_address ? config->switch_address : "";

	invitation->host = sml_mpi_host();
	sml_mpi_host_name(invitation->host_name, sizeof(invitation->host_name));
	draw_name(invitation, config->job);
	set_master(invitation, config);
	if (strlen(address) >= sizeof(invitation->switch_address))
		refuse(refusal, SML_ERROR_CONFIG,
		       "SWITCHML_SWITCH has more than 1023 characters: name fewer switches");
	snprintf(invitation->switch_address, sizeof(invitation->switch_address), "%s", address);
	if (is_embedded(address)) {
		invitation->port = choose_port(config);
		if (invitation->port == 0)
			refuse(refusal, SML_ERROR_CONFIG,
			       config->ports ? "all TCP ports of SWITCHML_PORTS are in use on this "
					       "host, and the ranks need one to meet: set "
					       "SWITCHML_PORTS to a wider range"
					     : "this host has no free TCP port, and the ranks need "
					       "one to meet");
	}
	if (config->ports)
		snprintf(invitation->ports, sizeof(invitation->ports), "%s", config->ports);
	invitation->timeout_ms = config->timeout_ms;
	invitation->heartbeat_ms = config->heartbeat_ms;
	invitation->wire = (int)config->wire;
	invitation->slots = config->slots;
	invitation->threads = config->threads;
}

/* ---- opening ---- */

/* True if all ranks could open the job; then it is closed again. */
static bool try_out(struct sml_mpi_communicator *communicator, struct sml_config config)
{
	struct refusal refusal = {0};
	struct sml_context *job = NULL;
	char name[128];
	int error;

	snprintf(name, sizeof(name), "%s-trial", config.job);
	config.job = name;
	config.timeout_ms = TRIAL_MS;
	config.summary = 0;
	error = sml_open(&job, &config);
	if (error == 0)
		error = sml_close(job);
	if (error)
		refuse(&refusal, error, sml_error_text(NULL));
	return all_agree(communicator, &refusal, NULL);
}

static void configure(struct sml_config *config, const struct invitation *invitation,
		      const struct sml_mpi_communicator *communicator, bool one_host)
{
	config->rank = communicator->rank;
	config->world_size = communicator->size;
	config->job = invitation->job;
	config->switch_address = invitation->switch_address;
	config->master_port = invitation->port;
	config->ports = invitation->ports;
	config->master_address = one_host		 ? "127.0.0.1"
				 : invitation->master[0] ? invitation->master
							 : invitation->host_name;
	config->timeout_ms = invitation->timeout_ms;
	config->heartbeat_ms = invitation->heartbeat_ms;
	config->wire = (enum sml_wire)invitation->wire;
	config->slots = invitation->slots;
	config->threads = invitation->threads;
}

static void begin_job(struct sml_mpi_communicator *communicator)
{
	struct invitation invitation = {0};
	struct refusal refusal = {0};
	struct sml_config config = SML_CONFIG_INIT;
	int error = sml_config_init(&config);
	bool one_host;

	communicator->state = SML_MPI_LEFT;
	communicator->why = SML_MPI_NO_SWITCH;
	if (__atomic_load_n(&given_up, __ATOMIC_RELAXED))
		refuse(&refusal, SML_ERROR_CLOSED, "");
	else if (error)
		refuse(&refusal, error, sml_error_text(NULL));
	else if (communicator->rank == 0)
		invite(&invitation, &refusal, &config);
	if (PMPI_Bcast(&invitation, (int)sizeof(invitation), MPI_BYTE, 0, communicator->comm) !=
	    MPI_SUCCESS)
		return;
	one_host = invitation.host == sml_mpi_host();
	if (!all_agree(communicator, &refusal, &one_host))
		return;
	configure(&config, &invitation, communicator, one_host);
	if (!try_out(communicator, config))
		return;
	error = sml_open(&communicator->job, &config);
	if (error)
		refuse(&refusal, error, sml_error_text(NULL));
	if (!all_agree(communicator, &refusal, NULL)) {
		/* Some ranks have the job and some do not: the others must not wait for its end. */
		if (communicator->job)
			sml_abort(communicator->job,
				  "another rank could not join the job: see the line of that rank");
		return;
	}
	communicator->state = SML_MPI_OPEN;
	sml_mpi_count_job();
}

static bool is_wanted(struct sml_mpi_communicator *communicator)
{
	if (!communicator->has_news)
		return false;
	communicator->has_news = false;
	for (size_t type = 0; type < SML_TYPES; type++)
		for (int op = 0; op < SML_MPI_SIZES; op++)
			if (communicator->largest.of[type][op] >= communicator->from.of[type][op])
				return true;
	return false;
}

void sml_mpi_meet(struct sml_mpi_communicator *communicator)
{
	if (communicator->state == SML_MPI_UNTRIED)
		agree(communicator);
	if (communicator->state == SML_MPI_AGREED && is_wanted(communicator))
		begin_job(communicator);
}
