/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml switch`: the daemon. */
#include "switch/switch.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/plural.h"
#include "cmd/shared/command.h"
#include "cmd/switch/daemon.h"
#include "cmd/switch/metrics.h"
#include "job/dataplane.h"
#include "net/address.h"
#include "switch/shared/log.h"

/* A line on standard output, in the form of the log. */
__attribute__((format(printf, 1, 2))) static void print_line(const char *format, ...)
{
	char text[SML_LOG_LINE_BYTES / 2], line[SML_LOG_LINE_BYTES];
	size_t bytes;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	bytes = sml_switch_log_line(line, STDOUT_FILENO, SML_LOG_INFO, text);
	fwrite(line, 1, bytes, stdout);
	fflush(stdout);
}

/* One line when the switch can be used: programs that start a switch wait for it. */
static void print_ready(const struct sml_switch_options *options, const struct sml_switch *running,
			const struct sml_metrics *metrics)
{
	const struct sml_switch_config *config = &options->config;
	char dataplane[512], data_port[32] = "", where[128] = "", ready[320];
	const char *listen = config->listen ? config->listen : "";
	struct sml_host_port at;

	sml_host_port_parse(listen, strlen(listen), &at);
	sml_host_port_text(ready, sizeof(ready),
			   at.host[0] ? at.host : "::", sml_switch_port(running));
	if (config->data_port != 0)
		snprintf(data_port, sizeof(data_port), " on port %d", config->data_port);
	if (metrics != NULL)
		sml_metrics_where(metrics, where, sizeof(where));
	sml_switch_describe(running, dataplane, sizeof(dataplane));
	print_line("ready on %s (tcp control, udp data%s), %u slots, %u job%s, %s%s%s%s", ready,
		   data_port, config->max_slots, config->max_jobs, sml_plural(config->max_jobs),
		   dataplane, config->tls.certificate ? ", control by TLS 1.3 only" : "",
		   metrics != NULL ? ", metrics at " : "", where);
}

/* Anyone who reaches the port could take part. */
static void warn_of_strangers(const struct sml_switch_config *config)
{
	const char *listen = config->listen ? config->listen : "";
	struct sml_host_port at;

	if (config->tls.certificate != NULL || config->job_key.file != NULL)
		return;
	if (!sml_host_port_parse(listen, strlen(listen), &at) ||
	    (*at.host != '\0' && strcmp(at.host, "0.0.0.0") != 0 && strcmp(at.host, "::") != 0))
		return; /* or it is no address: sml_switch_open() says so */
	sml_switch_log(SML_LOG_WARN,
		       "the switch listens on all addresses, and anyone who reaches it can take "
		       "part: name an address with --listen, or set SWITCHML_JOB_KEY_FILE");
}

/* Each connection needs a descriptor, and most systems have a soft limit below the hard limit. */
static void raise_file_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

/* SIGHUP. */
static void reload(struct sml_switch_options *options, struct sml_switch *running)
{
	struct sml_switch_config now;
	char others[512];

	sml_notify("RELOADING=1");
	if (sml_switch_options_reread(options, &now, others, sizeof(others)) < 0) {
		sml_switch_log(SML_LOG_ERROR, "nothing changes: %s", sml_error_last());
	} else {
		(void)sml_switch_reload(running, &now);
		sml_switch_log_set_level(now.debug);
		sml_switch_log(SML_LOG_INFO, "from %s: debug %s, heartbeat %u s%s%s", options->path,
			       sml_log_level_name(now.debug), now.heartbeat_ms / 1000,
			       *others ? "; needs a restart: " : "", others);
	}
	sml_notify("READY=1");
}

/* The signal that ends it. Until then, the service manager hears that the event loop runs. */
static int serve(struct sml_switch_options *options, struct sml_switch *running,
		 const sigset_t *signals)
{
	const uint64_t watchdog_ns = sml_notify_watchdog_ns();
	const struct timespec period = sml_timespec(watchdog_ns / 4);
	int received;

	for (;;) {
		received = sigtimedwait(signals, NULL, watchdog_ns > 0 ? &period : NULL);
		if (received == SIGHUP)
			reload(options, running);
		else if (received > 0)
			return received;
		if (watchdog_ns > 0 && sml_switch_idle_ns(running) < watchdog_ns / 2)
			sml_notify("WATCHDOG=1");
	}
}

/* The sockets first: they may need the privileges that sml_switch_open() drops. */
static int open_all(const struct sml_switch_options *options, struct sml_switch **running,
		    struct sml_metrics **metrics)
{
	int rc = 0;

	*running = NULL;
	*metrics = NULL;
	if (options->metrics != NULL)
		rc = sml_metrics_open(metrics, options->metrics);
	if (rc == 0)
		rc = sml_switch_open(running, &options->config);
	if (rc == 0 && *metrics != NULL)
		rc = sml_metrics_start(*metrics, *running);
	return rc;
}

int sml_command_switch(int argc, char **argv)
{
	struct sml_switch_options options;
	struct sml_switch_config *config = &options.config;
	struct sml_metrics *metrics;
	struct sml_switch *running;
	sigset_t signals;
	char where[512];
	int received, rc;
	bool uses_bpf;

	sml_switch_options_read(&options, argc, argv);
	if (options.log_json)
		sml_switch_log_set_form(sml_switch_log_json);
	else
		sml_switch_log_find_journal();
	sml_switch_log_set_level(config->debug);
	/* Blocked before there are threads, so that all inherit it. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	raise_file_limit();
	config->seal = sml_privileges_drop;
	warn_of_strangers(config);
	rc = open_all(&options, &running, &metrics);
	if (rc < 0) {
		sml_switch_options_location(&options, sml_error_last(), where, sizeof(where));
		sml_switch_log(SML_LOG_ERROR, "%s%s", sml_error_last(), where);
		sml_metrics_close(metrics);
		sml_switch_close(running);
		sml_switch_options_free(&options);
		/* A wrong setting stays wrong: the service manager need not try again. */
		return rc == -EINVAL ? (int)argp_err_exit_status : 1;
	}
	uses_bpf = config->dataplane != NULL && strcmp(config->dataplane->name, "xdp") == 0;
	sml_privileges_filter(&(struct sml_privileges){.bpf = uses_bpf,
						       .files = options.path != NULL,
						       .connects = config->parent != NULL,
						       .notifies = sml_notify_is_wanted()});
	print_ready(&options, running, metrics);
	sml_notify("READY=1");
	received = serve(&options, running, &signals);
	sml_notify("STOPPING=1");
	sml_metrics_close(metrics);
	sml_switch_close(running);
	print_line("ended by %s", received == SIGTERM ? "SIGTERM" : "SIGINT");
	sml_switch_options_free(&options);
	return 0;
}
