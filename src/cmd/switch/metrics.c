/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See metrics.h. libmicrohttpd parses HTTP. It has no thread here: this loop calls it, ends
 * connections that have lasted too long, and rests between its turns:
 *
 *	poll(libmicrohttpd's epoll, the end) -> one turn of libmicrohttpd -> rest
 */
#include "cmd/switch/metrics.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "net/address.h"
#include "net/listen_address.h"
#include "switch/switch.h"

#define DEFAULT_PORT 28501
#define BACKLOG	     16
/* All connections, and those of one host: somebody else can always ask. */
#define CONNECTIONS	     16
#define CONNECTIONS_OF_ONE   8
#define REQUEST_BYTES	     (8u << 10)
#define SILENCE_S	     5u
#define LONGEST_NS	     (10 * SML_NS_PER_SEC)
#define REST_MS		     2
#define STATUS_TIMEOUT_MS    2000
#define STATUS_AGE_NS	     (250 * SML_NS_PER_MS)
#define OPEN_METRICS	     "application/openmetrics-text"
#define OPEN_METRICS_CONTENT OPEN_METRICS "; version=1.0.0; charset=utf-8"
#define TEXT_CONTENT	     "text/plain; version=0.0.4; charset=utf-8"

struct connection {
	int fd; /* -1: free */
	uint64_t begun_ns;
};

struct sml_metrics {
	union sml_sockaddr address;
	int listen_fd, stop_fd;
	struct MHD_Daemon *daemon;
	pthread_t thread;
	bool runs;
	struct sml_switch *source;
	/* Only for the thread: */
	struct connection connections[CONNECTIONS];
	/* Of the last status, by form; NULL: not made yet. */
	SmlControl__Status *status;
	uint64_t status_ns;
	struct MHD_Response *texts[2];
};

/* ---- answers ---- */

static void forget_status(struct sml_metrics *metrics)
{
	for (unsigned i = 0; i < 2; i++) {
		if (metrics->texts[i] != NULL)
			MHD_destroy_response(metrics->texts[i]);
		metrics->texts[i] = NULL;
	}
	if (metrics->status != NULL)
		sml_control__status__free_unpacked(metrics->status, NULL);
	metrics->status = NULL;
}

/* A status that is recent enough, or NULL: the switch does not say. */
static const SmlControl__Status *recent_status(struct sml_metrics *metrics)
{
	uint8_t *bytes;
	size_t n;

	if (metrics->status != NULL && sml_now_ns() - metrics->status_ns < STATUS_AGE_NS)
		return metrics->status;
	forget_status(metrics);
	bytes = sml_switch_status(metrics->source, STATUS_TIMEOUT_MS, &n);
	if (bytes != NULL)
		metrics->status = sml_control__status__unpack(NULL, n, bytes);
	free(bytes);
	metrics->status_ns = sml_now_ns();
	return metrics->status;
}

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
	/* Without memory, the answer lacks it. */
	if (response != NULL)
		(void)MHD_add_response_header(response, name, value);
}

static struct MHD_Response *metrics_response(struct sml_metrics *metrics, bool open_metrics)
{
	const SmlControl__Status *status = recent_status(metrics);
	struct MHD_Response **response = &metrics->texts[open_metrics];
	size_t bytes = 0;
	char *text;

	if (status == NULL || *response != NULL)
		return *response;
	text = sml_metrics_text(status, open_metrics, &bytes);
	if (text == NULL)
		return NULL;
	*response = MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE);
	if (*response == NULL)
		free(text);
	add_header(*response, MHD_HTTP_HEADER_CONTENT_TYPE,
		   open_metrics ? OPEN_METRICS_CONTENT : TEXT_CONTENT);
	add_header(*response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT);
	add_header(*response, MHD_HTTP_HEADER_CONNECTION, "close");
	return *response;
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned code, const char *text)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result result;

	add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; charset=utf-8");
	add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		add_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	if (response == NULL)
		return MHD_NO;
	result = MHD_queue_response(connection, code, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_bytes, void **request)
{
	const char *accept =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	struct sml_metrics *metrics = context;
	struct MHD_Response *response;

	(void)version;
	(void)upload;
	(void)upload_bytes;
	(void)request;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is served here\n");
	if (strcmp(url, "/metrics") != 0)
		return say(connection, MHD_HTTP_NOT_FOUND, "the metrics are at /metrics\n");
	/* Only a client that names it can read it: curl and browsers take anything. */
	response = metrics_response(metrics, accept && strcasestr(accept, OPEN_METRICS));
	if (response == NULL)
		return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			   "the switch does not report its status\n");
	return MHD_queue_response(connection, MHD_HTTP_OK, response);
}

/* ---- connections ---- */

static void on_connection(void *context, struct MHD_Connection *connection, void **kept,
			  enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct sml_metrics *metrics = context;
	struct connection *free_slot_of_client = *kept;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED && free_slot_of_client != NULL)
		free_slot_of_client->fd = -1;
	if (what != MHD_CONNECTION_NOTIFY_STARTED || info == NULL)
		return;
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		if (metrics->connections[i].fd >= 0)
			continue;
		metrics->connections[i] =
			(struct connection){.fd = info->connect_fd, .begun_ns = sml_now_ns()};
		*kept = &metrics->connections[i];
		return;
	}
}

/* A client that sends or reads a byte now and then is never silent. */
static void end_long_ones(struct sml_metrics *metrics)
{
	uint64_t now_ns = sml_now_ns();

	for (unsigned i = 0; i < CONNECTIONS; i++)
		if (metrics->connections[i].fd >= 0 &&
		    now_ns - metrics->connections[i].begun_ns > LONGEST_NS)
			shutdown(metrics->connections[i].fd, SHUT_RDWR);
}

/* ---- the thread ---- */

/* The time until the next deadline, if no event comes first. */
static int wait_ms(struct MHD_Daemon *daemon)
{
	MHD_UNSIGNED_LONG_LONG ms;

	return MHD_get_timeout(daemon, &ms) == MHD_YES && ms < 1000 ? (int)ms : 1000;
}

static void *serve_http(void *argument)
{
	struct sml_metrics *metrics = argument;
	const union MHD_DaemonInfo *epoll =
		MHD_get_daemon_info(metrics->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd ready[2] = {{.fd = metrics->stop_fd, .events = POLLIN},
				  {.fd = epoll->epoll_fd, .events = POLLIN}};

	for (;;) {
		(void)poll(ready, 2, wait_ms(metrics->daemon));
		/* A turn serves each connection once: this bounds what clients can cost. */
		if (poll(ready, 1, REST_MS) > 0)
			return NULL;
		end_long_ones(metrics);
		(void)MHD_run(metrics->daemon);
	}
}

/* ---- opening and closing ---- */

static int listen_at(struct sml_metrics *metrics, const char *address, uint16_t port)
{
	socklen_t length = sizeof(metrics->address);
	struct sml_listen_address local;
	int rc = sml_listen_address_parse(address, port, &local), one = 1;

	if (rc < 0)
		return rc;
	metrics->listen_fd = sml_listen_address_socket(&local, SOCK_STREAM);
	if (metrics->listen_fd < 0)
		return metrics->listen_fd;
	if (setsockopt(metrics->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	rc = sml_listen_address_bind(&local, metrics->listen_fd);
	if (rc < 0)
		return rc;
	if (listen(metrics->listen_fd, BACKLOG) < 0 ||
	    getsockname(metrics->listen_fd, &metrics->address.any, &length) < 0)
		return -errno;
	return 0;
}

int sml_metrics_open(struct sml_metrics **opened, const char *listen)
{
	struct sml_metrics *metrics = calloc(1, sizeof(*metrics));
	struct sml_host_port wanted;
	uint16_t port;
	int rc;

	*opened = NULL;
	if (metrics == NULL)
		return sml_error_set(-ENOMEM, "no memory for the metrics");
	metrics->listen_fd = metrics->stop_fd = -1;
	for (unsigned i = 0; i < CONNECTIONS; i++)
		metrics->connections[i].fd = -1;
	rc = sml_host_port_parse(listen, strlen(listen), &wanted) ? 0 : -EINVAL;
	port = rc == 0 && wanted.has_port ? wanted.port : DEFAULT_PORT;
	if (rc == 0)
		rc = listen_at(metrics, wanted.host[0] != '\0' ? wanted.host : "127.0.0.1", port);
	if (rc == 0) {
		*opened = metrics;
		return 0;
	}
	sml_metrics_close(metrics);
	if (rc == -EINVAL)
		return sml_error_set(
			rc,
			"'%s' is not an address for --metrics: ADDR, ADDR:PORT, [V6]:PORT or :PORT",
			listen);
	return sml_error_set(rc, "cannot listen on TCP port %u of %s for --metrics: %s; %s", port,
			     wanted.host[0] != '\0' ? wanted.host : "127.0.0.1", strerror(-rc),
			     sml_bind_fix(rc, "see which process uses it: ss -ltnp"));
}

int sml_metrics_start(struct sml_metrics *metrics, struct sml_switch *source)
{
	int rc;

	metrics->source = source;
	metrics->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (metrics->stop_fd < 0)
		return sml_error_set(-errno, "no eventfd for the metrics: %s", strerror(errno));
	metrics->daemon = MHD_start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, on_request, metrics, MHD_OPTION_LISTEN_SOCKET,
		metrics->listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
		MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)CONNECTIONS_OF_ONE,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_S, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, metrics, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
	if (metrics->daemon == NULL)
		return sml_error_set(-EIO, "libmicrohttpd cannot serve the metrics: %s",
				     strerror(errno));
	/* It closes the socket from now on. */
	metrics->listen_fd = -1;
	rc = sml_thread_start(&metrics->thread, "sml-metrics", serve_http, metrics);
	if (rc < 0)
		return sml_error_set(rc, "the metrics' thread cannot be started: %s",
				     strerror(-rc));
	metrics->runs = true;
	return 0;
}

void sml_metrics_where(const struct sml_metrics *metrics, char *text, size_t bytes)
{
	char host[INET6_ADDRSTRLEN], at[sizeof(host) + sizeof("[]:65535")];

	sml_host_port_text(at, sizeof(at), sml_sockaddr_text(&metrics->address, host),
			   ntohs(metrics->address.v4.sin_port)); /* the same in both families */
	snprintf(text, bytes, "http://%s/metrics", at);
}

void sml_metrics_close(struct sml_metrics *metrics)
{
	const uint64_t one = 1;

	if (metrics == NULL)
		return;
	if (metrics->runs && write(metrics->stop_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
		pthread_join(metrics->thread, NULL);
	if (metrics->daemon != NULL)
		MHD_stop_daemon(metrics->daemon);
	if (metrics->listen_fd >= 0)
		close(metrics->listen_fd);
	if (metrics->stop_fd >= 0)
		close(metrics->stop_fd);
	forget_status(metrics);
	free(metrics);
}
