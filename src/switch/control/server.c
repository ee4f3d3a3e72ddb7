/* SPDX-License-Identifier: BSD-3-Clause */
/* The control plane's event loop: time, notes of the dataplane, the beginning and the end. See
 * server.h. */
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/least.h"
#include "base/thread.h"
#include "net/address.h"
#include "net/listen_address.h"
#include "switch/control/server.h"
#include "switch/shared/log.h"

_Static_assert((int)SML_TURN_CLASSES <= (int)SML_LOOP_CLASSES, "each class has a queue");

#define BACKLOG 128
/* How long workers may take to read what they are told at the end. */
#define STOP_NS (300 * SML_NS_PER_MS)
/* And if it was lost on the way. */
#define STOP_RESEND_NS (4 * SML_NS_PER_SEC)

/* ---- time ---- */

/*
 * If this tick is very late (a stopped process, a suspended machine), nothing was read either:
 * messages that peers sent in the meantime are still unread. The jobs find this out by themselves,
 * for their members (job/input/jobs.c).
 */
static void allow_for_own_absence(struct sml_server *server, uint64_t now_ns)
{
	uint64_t away_ns = now_ns - server->ticked_ns;

	server->ticked_ns = now_ns;
	if (away_ns < SML_BEAT_NS + SML_TICK_NS)
		return;
	/* Shift all of them, to keep their order; otherwise the wrong one would make room. */
	for (struct sml_connection *c = server->connections; c != NULL; c = c->next) {
		if (!sml_peer_is_member(&c->peer))
			c->peer.heard_ns = sml_earlier(c->peer.heard_ns + away_ns, now_ns);
		c->stranger_ns = sml_earlier(c->stranger_ns + away_ns, now_ns);
	}
}

static void look_at_connections(struct sml_server *server, uint64_t now_ns)
{
	struct sml_connection *connection, *next;
	unsigned n_lost = 0;

	for (connection = server->connections; connection != NULL; connection = next) {
		next = connection->next;
		connection->used_ns = 0;
		sml_connection_classify(connection);
		sml_connection_keep_alive(connection);
		/* All at once would take longer than a turn. */
		if (n_lost < SML_TICK_LOSSES && sml_connection_is_over(connection, now_ns)) {
			sml_connection_lose(connection, "its connection had been given up");
			n_lost++;
		}
	}
}

static void on_tick(void *context, unsigned what)
{
	struct sml_server *server = context;
	uint64_t now_ns = sml_now_ns();

	(void)what;
	if (server->accepts_none && sml_watch_set(server->accept, SML_WATCH_READ) == 0)
		server->accepts_none = false;
	allow_for_own_absence(server, now_ns);
	sml_jobs_tick(&server->jobs, now_ns);
	look_at_connections(server, now_ns);
	/* From now on: after a tick that took long (slow counters), members are served first. */
	sml_watch_every(server->tick, SML_TICK_NS);
}

/* ---- notes of the dataplane ---- */

static void note_mismatch(void *context, const struct sml_mismatch *mismatch)
{
	struct sml_server *server = context;

	pthread_mutex_lock(&server->note_mutex);
	if (server->n_noted < SML_MAX_JOBS)
		server->noted[server->n_noted++] = *mismatch;
	pthread_mutex_unlock(&server->note_mutex);
	sml_watch_post(server->note);
}

/* The jobs find out what for. */
static void note_probed(void *context)
{
	struct sml_server *server = context;

	sml_watch_post(server->note);
}

static void on_note(void *context, unsigned what)
{
	struct sml_server *server = context;
	struct sml_mismatch noted[SML_MAX_JOBS];
	uint32_t n;

	(void)what;
	pthread_mutex_lock(&server->note_mutex);
	n = server->n_noted;
	memcpy(noted, server->noted, n * sizeof(noted[0]));
	server->n_noted = 0;
	pthread_mutex_unlock(&server->note_mutex);
	for (uint32_t i = 0; i < n; i++)
		sml_jobs_mismatch(&server->jobs, &noted[i], sml_now_ns());
	if (server->config.parent != NULL)
		sml_jobs_tick(&server->jobs, sml_now_ns());
}

/* ---- room for a job's ranks ---- */

/* Descriptors under the limit that nobody uses. UINT32_MAX: unknown. */
static uint32_t count_free(const struct rlimit *files)
{
	DIR *folder = opendir("/proc/self/fd");
	rlim_t n = 0;

	if (folder == NULL)
		return errno == EMFILE ? 0 : UINT32_MAX;
	/* Two names are not descriptors, and one is the folder's. */
	while (readdir(folder) != NULL)
		n++;
	closedir(folder);
	n -= 3;
	return n < files->rlim_cur ? (uint32_t)(files->rlim_cur - n) : 0;
}

/* What a rank 0 opens later for itself, and what a switch needs at least for a job. */
#define RANK_0_FILES 6
#define LEAST_FILES  16

/* A server that starts and then refuses everybody helps nobody. */
static int check_room(const struct sml_switch_config *config)
{
	uint32_t needed = config->rendezvous ? config->only_world_size + RANK_0_FILES : LEAST_FILES;
	struct rlimit files;
	uint32_t n_free;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > UINT32_MAX)
		return 0;
	n_free = count_free(&files);
	if (n_free >= needed &&
	    (!config->rendezvous || files.rlim_cur / 2 >= config->only_world_size))
		return 0;
	return sml_error_set(-EMFILE,
			     "only %u of the %llu descriptors that the limit allows are free, and "
			     "%s needs at least %u, one for each rank and some for itself: raise "
			     "the limit (ulimit -n%s)",
			     n_free, (unsigned long long)files.rlim_cur,
			     config->rendezvous ? "rank 0" : "a switch",
			     config->rendezvous && 2 * config->only_world_size > needed
				     ? 2 * config->only_world_size
				     : needed,
			     config->rendezvous ? "" : "; LimitNOFILE= of a service");
}

/* ---- new settings ---- */

static void on_reload(void *context, unsigned what)
{
	struct sml_server *server = context;
	char next[SML_NAME_BYTES];
	uint32_t n_ranks;

	(void)what;
	pthread_mutex_lock(&server->note_mutex);
	server->jobs.config.heartbeat_ms = server->new_heartbeat_ms;
	server->jobs.config.debug = server->new_debug;
	server->config.debug = server->new_debug;
	snprintf(next, sizeof(next), "%s", server->new_job);
	n_ranks = server->new_world_size;
	pthread_mutex_unlock(&server->note_mutex);
	if (next[0] == '\0')
		return;
	memcpy(server->only_job, next, sizeof(next));
	sml_jobs_serve_next(&server->jobs, n_ranks, sml_now_ns());
}

int sml_server_reload(struct sml_server *server, const struct sml_switch_config *config)
{
	int error = config->rendezvous ? check_room(config) : 0;

	if (error)
		return error;
	pthread_mutex_lock(&server->note_mutex);
	server->new_heartbeat_ms = config->heartbeat_ms;
	server->new_debug = config->debug;
	server->new_world_size = config->only_world_size;
	if (config->only_job != NULL)
		snprintf(server->new_job, sizeof(server->new_job), "%s", config->only_job);
	pthread_mutex_unlock(&server->note_mutex);
	sml_watch_post(server->reload);
	return 0;
}

/* ---- the status, for other threads ---- */

static void on_status(void *context, unsigned what)
{
	struct sml_server *server = context;
	uint64_t asked;
	uint8_t *bytes;
	size_t n = 0;

	(void)what;
	pthread_mutex_lock(&server->note_mutex);
	asked = server->n_status_requests;
	pthread_mutex_unlock(&server->note_mutex);
	bytes = sml_jobs_pack_status(&server->jobs, sml_now_ns(), &n);
	pthread_mutex_lock(&server->note_mutex);
	free(server->status_bytes);
	server->status_bytes = bytes;
	server->status_n = n;
	server->n_status_answers = asked;
	pthread_cond_broadcast(&server->status_written);
	pthread_mutex_unlock(&server->note_mutex);
}

/* Under the mutex. */
static uint8_t *copy_status(const struct sml_server *server, size_t *n)
{
	uint8_t *copy = server->status_bytes != NULL ? malloc(server->status_n + 1) : NULL;

	if (copy == NULL)
		return NULL;
	*n = server->status_n;
	memcpy(copy, server->status_bytes, *n);
	return copy;
}

uint8_t *sml_server_status(struct sml_server *server, uint32_t timeout_ms, size_t *n)
{
	const struct timespec until = sml_timespec(sml_now_ns() + timeout_ms * SML_NS_PER_MS);
	uint8_t *bytes = NULL;
	uint64_t number;
	int rc = 0;

	pthread_mutex_lock(&server->note_mutex);
	number = ++server->n_status_requests;
	sml_watch_post(server->status);
	while (server->n_status_answers < number && rc == 0)
		rc = pthread_cond_timedwait(&server->status_written, &server->note_mutex, &until);
	if (server->n_status_answers >= number)
		bytes = copy_status(server, n);
	pthread_mutex_unlock(&server->note_mutex);
	return bytes;
}

/* ---- opening and closing ---- */

static bool may_stop(const struct sml_server *server)
{
	const struct sml_connection *c = server->connections;

	while (c != NULL && !sml_connection_is_resent(c))
		c = c->next;
	return c == NULL || sml_now_ns() >= server->stops_ns;
}

/* Tells the workers, and gives them a moment to read it. */
static void on_stop(void *context, unsigned what)
{
	struct sml_server *server = context;

	if (what & SML_WATCH_TIME) {
		if (may_stop(server))
			sml_loop_stop(server->loop);
		else
			sml_watch_at(server->stop, sml_now_ns() + SML_TICK_NS);
		return;
	}
	(void)sml_watch_set(server->accept, 0);
	sml_uplink_close(server);
	sml_jobs_stop(&server->jobs, sml_now_ns());
	for (struct sml_connection *c = server->connections; c != NULL; c = c->next)
		sml_connection_end(c);
	server->stopping = true;
	server->stops_ns = sml_now_ns() + STOP_RESEND_NS;
	if (server->connections == NULL)
		sml_loop_stop(server->loop);
	else
		sml_watch_at(server->stop, sml_now_ns() + STOP_NS);
}

/* Our own port. No peer can connect yet; early ones try again. */
static int take_port(struct sml_server *server, struct sml_listen_address *local)
{
	int fd = sml_listen_address_socket(local, SOCK_STREAM), one = 1, rc;
	socklen_t length = sizeof(local->address);

	if (fd < 0)
		return fd;
	server->listen_fd = fd;
	rc = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ? -errno : 0;
	if (rc == 0)
		rc = sml_listen_address_bind(local, fd);
	if (rc == 0 && getsockname(fd, &local->address.any, &length) < 0)
		rc = -errno;
	/* The port is at the same place in both families. */
	server->port = ntohs(local->address.v4.sin_port);
	return rc;
}

/*
 * Called when all is ready: the dataplane may need a second to start, and a rank waits no longer
 * than that.
 */
static int listen_on_port(struct sml_server *server)
{
	if (listen(server->listen_fd, BACKLOG) < 0)
		return -errno;
	server->accept =
		sml_watch_new(server->loop, server->listen_fd, sml_connection_accept, server);
	if (server->accept == NULL)
		return -ENOMEM;
	sml_watch_set_class(server->accept, SML_TURN_STRANGERS);
	return sml_watch_set(server->accept, SML_WATCH_READ);
}

static int open_dataplane(struct sml_server *server, const char *address)
{
	const struct sml_dataplane_operations *operations = server->jobs.operations;
	struct sml_dataplane_config config = {
		.port = server->config.data_port ? server->config.data_port : server->port,
		.address = address,
		.n_threads = server->config.threads,
		.interfaces = server->config.interfaces ? server->config.interfaces : "",
		.xdp_mode = server->config.xdp_mode,
		.target = server->config.target,
		.hosts = server->config.hosts ? server->config.hosts : "",
		.max_jobs = server->config.max_jobs,
		.max_slots = server->config.max_slots,
		.seal = server->config.seal,
		.debug = server->config.debug,
		.on_mismatch = note_mismatch,
		.on_probed = note_probed,
		.context = server,
	};

	server->jobs.config.data_port = config.port;
	return operations->open ? operations->open(&server->jobs.dataplane, &config) : 0;
}

/*
 * The loop has the budgets of server.h. All watches but the status are of the clock's class. It is
 * not interrupted, because it always has little to do.
 */
static int open_watches(struct sml_server *server)
{
	sml_loop_limit(server->loop, SML_TURN_MEMBERS, SML_TURN_CALLS, SML_TURN_NS);
	server->tick = sml_watch_new(server->loop, -1, on_tick, server);
	server->note = sml_watch_new(server->loop, -1, on_note, server);
	server->reload = sml_watch_new(server->loop, -1, on_reload, server);
	server->status = sml_watch_new(server->loop, -1, on_status, server);
	server->stop = sml_watch_new(server->loop, -1, on_stop, server);
	if (server->tick == NULL || server->note == NULL || server->reload == NULL ||
	    server->status == NULL || server->stop == NULL)
		return -ENOMEM;
	sml_watch_set_class(server->status, SML_TURN_STRANGERS);
	sml_watch_every(server->tick, SML_TICK_NS);
	return 0;
}

/*
 * Strangers never have more than a quarter of the descriptors, and strangers and members together
 * not more than three quarters. The rest is for the process, which may be an application.
 */
static void limit_connections(struct sml_server *server)
{
	struct rlimit files;

	server->max_connections = UINT32_MAX;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > UINT32_MAX)
		return;
	server->max_connections = (uint32_t)(files.rlim_cur / 4 * 3);
	if (server->config.max_strangers > files.rlim_cur / 4)
		server->config.max_strangers = (uint32_t)(files.rlim_cur / 4);
}

/* Members never have more than half, however many jobs and ranks a stranger invents. */
static uint32_t most_members(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / 2 > UINT32_MAX)
		return 0;
	return (uint32_t)(files.rlim_cur / 2);
}

static void open_jobs(struct sml_server *server)
{
	const struct sml_switch_config *config = &server->config;

	/* The caller's may go with its job. */
	if (config->only_job != NULL)
		snprintf(server->only_job, sizeof(server->only_job), "%s", config->only_job);
	server->jobs = (struct sml_jobs){
		.config = {.max_slots = config->max_slots,
			   .max_jobs = config->max_jobs,
			   .max_members = most_members(),
			   .heartbeat_ms = config->heartbeat_ms,
			   .local_stripes = config->local_stripes,
			   .only_job = config->only_job != NULL ? server->only_job : NULL,
			   .only_elsewhere = config->only_elsewhere,
			   .only_world_size = config->only_world_size,
			   .name = server->name,
			   .parent = config->parent != NULL ? server->uplink.where : NULL,
			   .debug = config->debug},
		.output = &sml_server_output,
		.context = server,
		.operations = config->rendezvous  ? &sml_dataplane_ranks
			      : config->dataplane ? config->dataplane
						  : &sml_dataplane_udp,
	};
	sml_jobs_init(&server->jobs, sml_now_ns());
}

static int open_tls_end(const struct sml_switch_config *config, enum sml_tls_end end,
			struct sml_tls **opened)
{
	return config->tls.job_key != NULL
		       ? sml_tls_open(opened, end, &config->tls, &config->tls_names)
		       : sml_tls_open_with_key(opened, end, &config->tls, &config->tls_names,
					       &config->job_key, &config->job_key_names);
}

static int open_tls(struct sml_server *server)
{
	struct sml_switch_config *config = &server->config;
	int rc = open_tls_end(config, SML_TLS_SWITCH, &server->tls);

	/* To its parent, a leaf is what a rank is to a switch. */
	if (rc == 0 && config->parent != NULL)
		rc = open_tls_end(config, SML_TLS_WORKER, &server->uplink.tls);

	/* The caller may wipe both now. */
	config->tls.job_key = NULL;
	config->job_key = (struct sml_key_source){NULL, NULL};
	return rc;
}

/* What a leaf cannot do. */
static int check_leaf(struct sml_server *server)
{
	const struct sml_switch_config *config = &server->config;
	const struct sml_dataplane_operations *operations = server->jobs.operations;

	if (config->parent == NULL)
		return 0;
	if (operations->probe_parent == NULL)
		return sml_error_set(-EINVAL,
				     "a switch with the %s dataplane cannot be a leaf (--parent): "
				     "use --dataplane udp or xdp",
				     operations->name);
	return sml_uplink_find(server);
}

static void name_switch(struct sml_server *server)
{
	char host[256] = "?";

	gethostname(host, sizeof(host) - 1);
	snprintf(server->name, sizeof(server->name), "%.100s:%u", host, server->port);
}

int sml_server_open(struct sml_server *server, const char *address, uint16_t port)
{
	struct sml_listen_address local;
	int rc;

	pthread_mutex_init(&server->note_mutex, NULL);
	sml_cond_init(&server->status_written);
	limit_connections(server);
	server->ticked_ns = sml_now_ns();
	server->listen_fd = server->uplink.fd = -1;
	open_jobs(server);
	rc = sml_loop_open(&server->loop);
	if (rc == 0)
		rc = open_watches(server);
	if (rc < 0)
		return sml_error_set(rc,
				     "no memory or file descriptors for the control plane: %s "
				     "(the limit of descriptors: ulimit -n)",
				     strerror(-rc));
	rc = open_tls(server);
	if (rc < 0)
		return rc;
	rc = check_leaf(server);
	if (rc < 0)
		return rc;
	if (sml_listen_address_parse(address, port, &local) < 0)
		return sml_error_set(-EINVAL,
				     "'%s' of --listen is not the address of an interface in "
				     "numbers: `ip address' lists them",
				     address);
	rc = take_port(server, &local);
	if (rc == 0) {
		name_switch(server);
		rc = open_dataplane(server, address);
		if (rc < 0)
			return rc;
		rc = listen_on_port(server);
	}
	if (rc == 0 && server->config.parent != NULL)
		rc = sml_uplink_start(server);
	if (rc < 0)
		/* A rank, which has no options, names its variables. */
		return sml_error_set(rc, "%scannot listen on TCP port %u of %s: %s; %s",
				     server->config.rendezvous ? "" : "--listen: ", port,
				     address ? address : "all addresses", strerror(-rc),
				     sml_bind_fix(rc, "choose another port, or see which process "
						      "uses it: ss -ltnp"));
	return check_room(&server->config);
}

void sml_server_run(struct sml_server *server)
{
	sml_loop_run(server->loop);
}

void sml_server_stop(struct sml_server *server)
{
	sml_watch_post(server->stop);
}

void sml_server_close(struct sml_server *server)
{
	sml_uplink_close(server);
	sml_jobs_stop(&server->jobs, sml_now_ns());
	while (server->connections != NULL)
		sml_connection_free(server->connections);
	if (server->jobs.dataplane != NULL)
		server->jobs.operations->close(server->jobs.dataplane);
	sml_watch_free(server->accept);
	if (server->listen_fd >= 0)
		sml_fd_shut(server->listen_fd);
	sml_watch_free(server->tick);
	sml_watch_free(server->note);
	sml_watch_free(server->reload);
	sml_watch_free(server->status);
	sml_watch_free(server->stop);
	sml_loop_close(server->loop);
	sml_tls_close(server->tls);
	sml_tls_close(server->uplink.tls);
	free(server->status_bytes);
	pthread_cond_destroy(&server->status_written);
	pthread_mutex_destroy(&server->note_mutex);
}
