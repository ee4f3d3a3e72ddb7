/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/ranks.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "control.pb-c.h"
#include "support/test.h"
#include "switch/dataplane.h"

#define MAX_JOBS     4
#define MAX_RANKS    64
#define MAX_SWITCHES 32

uint64_t now_ms(void)
{
	return sml_now_ns() / SML_NS_PER_MS;
}

void complain(struct rank *rank, const char *format, ...)
{
	va_list arguments;

	if (rank->complaint[0])
		return;
	va_start(arguments, format);
	vsnprintf(rank->complaint, sizeof(rank->complaint), format, arguments);
	va_end(arguments);
}

void wait_until_told(struct rank *rank)
{
	uint64_t began = now_ms();

	while (sml_error_text(rank->context)[0] == '\0' && now_ms() - began < 60000)
		usleep(5000);
}

/* No process gets these from the kernel unasked, and no switch listens there by default. */
#define FIRST_PORT 12000
#define PORTS	   16000

/* A socket at the port, or -1 if another one has it. */
static int bind_alone(int type, int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	assert_int_equal(errno, EADDRINUSE);
	close(fd);
	return -1;
}

/*
 * A TCP socket holds the port and does not listen: other tests' sockets, which have no SO_REUSEADDR
 * when they are bound, do not get it, but a switch does.
 */
int free_port(void)
{
	static int held[PORTS_HELD];
	static unsigned n_held, n_tried;
	int one = 1, port, tcp, udp;

	for (;;) {
		assert_true(n_tried < PORTS);
		port = FIRST_PORT + (int)(((unsigned)getpid() * PORTS_HELD + n_tried++) % PORTS);
		tcp = bind_alone(SOCK_STREAM, port);
		if (tcp < 0)
			continue;
		udp = bind_alone(SOCK_DGRAM, port);
		if (udp >= 0)
			break;
		close(tcp);
	}
	close(udp);
	assert_int_equal(setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	if (n_held >= PORTS_HELD)
		close(held[n_held % PORTS_HELD]);
	held[n_held++ % PORTS_HELD] = tcp;
	return port;
}

static struct sml_switch *served[MAX_SWITCHES];
static struct sml_dataplane_operations dataplanes[MAX_SWITCHES]; /* of each: it reads them */
static unsigned n_served;
static bool stops_at_end;

/* Leaves first. */
static void stop_all(void)
{
	while (n_served > 0)
		sml_switch_close(served[--n_served]);
	stops_at_end = false;
}

void stop_serving(struct sml_switch *opened)
{
	for (unsigned i = 0; i < n_served; i++)
		if (served[i] == opened)
			served[i] = NULL;
	while (n_served > 0 && served[n_served - 1] == NULL)
		n_served--;
	sml_switch_close(opened);
}

static struct sml_switch *serve(const char *parent, int port, char address[64],
				const struct sml_dataplane_operations *dataplane)
{
	struct sml_switch_config config;
	struct sml_switch *opened;
	unsigned tries = 0;
	int rc;

	assert_true(n_served < MAX_SWITCHES);
	sml_switch_config_init(&config);
	snprintf(address, 64, "127.0.0.1:%d", port);
	config.listen = address;
	config.parent = parent;
	dataplanes[n_served] = *dataplane;
	config.dataplane = &dataplanes[n_served];
	/* A TCP port that the kernel chooses may be another process's UDP port: then any other. */
	do
		rc = sml_switch_open(&opened, &config);
	while (rc == -EADDRINUSE && port == 0 && ++tries < 10);
	if (rc < 0)
		fail_msg("%s", sml_error_last());
	snprintf(address, 64, "127.0.0.1:%u", sml_switch_port(opened));
	if (!stops_at_end)
		test_at_end(stop_all);
	stops_at_end = true;
	served[n_served++] = opened;
	return opened;
}

struct sml_switch *serve_at(int port, char address[64])
{
	return serve(NULL, port, address, &sml_dataplane_udp);
}

struct sml_switch *serve_udp(char address[64])
{
	return serve_at(0, address);
}

struct sml_switch *serve_with(const struct sml_dataplane_operations *dataplane, char address[64])
{
	return serve(NULL, 0, address, dataplane);
}

struct sml_switch *serve_integers(char address[64])
{
	struct sml_dataplane_operations operations = sml_dataplane_udp;

	operations.floats = false;
	return serve_with(&operations, address);
}

void serve_two(char addresses[2][64], char list[130])
{
	serve_at(0, addresses[0]);
	serve_at(0, addresses[1]);
	snprintf(list, 130, "%s,%s", addresses[0], addresses[1]);
}

static bool is_attached(struct sml_switch *leaf)
{
	SmlControl__Status *status;
	uint8_t *packed;
	bool attached;
	size_t n;

	packed = sml_switch_status(leaf, 10000, &n);
	assert_non_null(packed);
	status = sml_control__status__unpack(NULL, n, packed);
	assert_non_null(status);
	attached = status->attached;
	sml_control__status__free_unpacked(status, NULL);
	free(packed);
	return attached;
}

struct sml_switch *serve_leaf(const char *parent, char address[64])
{
	return serve_leaf_with(&sml_dataplane_udp, parent, address);
}

struct sml_switch *serve_leaf_with(const struct sml_dataplane_operations *dataplane,
				   const char *parent, char address[64])
{
	struct sml_switch *leaf = serve(parent, 0, address, dataplane);
	uint64_t began = now_ms();

	while (!is_attached(leaf)) {
		assert_true(now_ms() - began < 60000);
		usleep(5000);
	}
	return leaf;
}

pid_t serve_in_child(struct sml_switch *(*begin)(char address[64]), char address[64])
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* it does not outlive a failed test */
		begin(address);
		if (write(ends[1], address, 64) == 64)
			pause();
		_exit(1);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], address, 64), 64);
	close(ends[0]);
	return pid;
}

void configure(struct sml_config *config, const struct job *job, int rank)
{
	*config = (struct sml_config)SML_CONFIG_INIT;
	sml_config_init(config);
	config->job = job->name ? job->name : "test";
	config->switch_address =
		job->switch_addresses ? job->switch_addresses[rank] : job->switch_address;
	config->rank = rank;
	config->world_size = job->n_ranks;
	config->master_port = job->port;
	if (job->master_address)
		config->master_address = job->master_address;
	config->threads = job->threads ? job->threads : 1;
	config->slots = job->slots;
	config->timeout_ms = job->timeout_ms ? job->timeout_ms : 60000;
	config->heartbeat_ms = job->heartbeat_ms ? job->heartbeat_ms : 20000;
	config->faults = job->faults;
	config->record = job->record;
	config->shared_memory = job->host_group && job->by_default ? -1 : job->host_group;
	if (job->alone >> rank & 1)
		config->shared_memory = 0;
	if (job->adjust)
		job->adjust(config, job, rank);
}

static void *rank_main(void *argument)
{
	struct rank *rank = argument;
	struct sml_config config;
	int error;

	configure(&config, rank->job, rank->rank);
	error = sml_open(&rank->context, &config);
	if (error < 0 && rank->job->refused)
		rank->job->refused(rank, error);
	else if (error < 0)
		complain(rank, "open: %s", sml_error_text(NULL));
	if (error < 0)
		return NULL;
	rank->job->body(rank);
	rank->closed = sml_close(rank->context);
	return NULL;
}

int run_rank(const struct job *job, int r)
{
	struct rank rank = {.job = job, .rank = r, .n = job->n_ranks};

	rank_main(&rank);
	if (rank.complaint[0])
		fprintf(stderr, "rank %d: %s\n", r, rank.complaint);
	return rank.complaint[0] != '\0';
}

void run_jobs(struct job *jobs, unsigned n)
{
	static struct rank ranks[MAX_JOBS][MAX_RANKS];
	pthread_t threads[MAX_JOBS][MAX_RANKS];
	bool failed = false;

	for (unsigned j = 0; j < n; j++) {
		if (jobs[j].port == 0)
			jobs[j].port = free_port();
		for (int r = 0; r < jobs[j].n_ranks; r++) {
			ranks[j][r] =
				(struct rank){.job = &jobs[j], .rank = r, .n = jobs[j].n_ranks};
			if (!(jobs[j].elsewhere >> r & 1))
				pthread_create(&threads[j][r], NULL, rank_main, &ranks[j][r]);
		}
	}
	for (unsigned j = 0; j < n; j++) {
		for (int r = 0; r < jobs[j].n_ranks; r++) {
			if (jobs[j].elsewhere >> r & 1)
				continue;
			pthread_join(threads[j][r], NULL);
			if (ranks[j][r].hash != ranks[j][0].hash) {
				print_error("job %u: ranks 0 and %d have different bits\n", j, r);
				failed = true;
			}
			if (ranks[j][r].complaint[0]) {
				print_error("job %u, rank %d: %s\n", j, r, ranks[j][r].complaint);
				failed = true;
			}
		}
	}
	assert_false(failed);
	for (unsigned j = 0; j < n; j++)
		if (jobs[j].hash)
			*jobs[j].hash = ranks[j][0].hash;
}

void run_job(const struct job *job)
{
	struct job copy = *job;

	run_jobs(&copy, 1);
}
