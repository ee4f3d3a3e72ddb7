/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml switch`: the daemon. */
#include "switch/switch.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "cmd/ask.h"
#include "cmd/commands.h"
#include "cmd/privileges.h"
#include "net/address.h"
#ifdef SML_HAVE_XDP
#include "switch/xdp/dataplane.h"
#endif

enum {
	OPTION_DATA_PORT = 256,
	OPTION_SLOTS,
	OPTION_JOBS,
	OPTION_THREADS,
	OPTION_HEARTBEAT,
	OPTION_TLS_CERTIFICATE,
	OPTION_TLS_KEY,
	OPTION_TLS_AUTHORITY,
	OPTION_KEY_FILE,
	OPTION_DATAPLANE,
	OPTION_XDP_MODE,
	OPTION_MULTICAST,
	OPTION_MULTICAST_HOPS
};

static const struct argp_option option_list[] = {
	{"listen", 'l', "ADDR[:PORT]", 0,
	 "Address to listen on (all addresses, port 28500). Port 0 selects a free port", 0},
	{"data-port", OPTION_DATA_PORT, "PORT", 0, "UDP port for data (the control port's number)",
	 0},
	{"slots", OPTION_SLOTS, "N", 0, "Slots of all jobs together (4096)", 0},
	{"jobs", OPTION_JOBS, "N", 0, "Number of jobs at once (64, at most 256)", 0},
	{"threads", OPTION_THREADS, "N", 0, "Number of threads that move packets (1)", 0},
	{"heartbeat", OPTION_HEARTBEAT, "SECONDS", 0,
	 "The longest heartbeat timeout that a worker may ask for (60)", 0},
	{"tls-certificate", OPTION_TLS_CERTIFICATE, "FILE", 0,
	 "Accept only control connections over TLS 1.3, and present this certificate. The three "
	 "files must be given together, in PEM format (SWITCHML_TLS_CERTIFICATE)",
	 0},
	{"tls-key", OPTION_TLS_KEY, "FILE", 0, "The certificate's private key (SWITCHML_TLS_KEY)",
	 0},
	{"tls-authority", OPTION_TLS_AUTHORITY, "FILE", 0,
	 "The authority of the workers' certificates (SWITCHML_TLS_AUTHORITY)", 0},
	{"key-file", OPTION_KEY_FILE, "FILE", 0,
	 "Instead of certificates, accept only control connections that prove the secret in this "
	 "file: 16 to 1024 bytes that no other user may read (SWITCHML_JOB_KEY, or "
	 "SWITCHML_JOB_KEY_FILE)",
	 0},
	{"dataplane", OPTION_DATAPLANE, "NAME", 0,
	 "udp (default), or xdp: in the kernel, on the interfaces of --iface", 0},
	{"iface", 'i', "NAME[,NAME...]", 0, "For xdp: the interfaces that lead to the workers", 0},
	{"xdp-mode", OPTION_XDP_MODE, "MODE", 0,
	 "auto (default: in the driver if possible, else generic), native, or generic", 0},
	{"multicast", OPTION_MULTICAST, "GROUP[:PORT]", 0,
	 "Send each result once to a multicast group, instead of once to each worker. The first "
	 "job uses this group, the second job the next group, and so on (port 28600; a worker's "
	 "second thread uses the next port, and so on). Workers that the group does not reach get "
	 "their results one by one",
	 0},
	{"multicast-hops", OPTION_MULTICAST_HOPS, "N", 0,
	 "How far multicast packets may travel: past N - 1 routers (1)", 0},
	{"verbose", 'v', NULL, 0, "Report what happens to jobs; if given twice, report more", 0},
	{0},
};

static uint32_t number(struct argp_state *state, const char *option, const char *text,
		       uint32_t lowest, uint32_t highest)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value < lowest || value > highest)
		argp_error(state, "--%s must be a number from %u to %u, not '%s'", option, lowest,
			   highest, text);
	return (uint32_t)value;
}

static const struct sml_dataplane_operations *dataplane(struct argp_state *state, const char *name)
{
	if (strcmp(name, "udp") == 0)
		return NULL;
#ifdef SML_HAVE_XDP
	if (strcmp(name, "xdp") == 0)
		return &sml_dataplane_xdp;
#else
	if (strcmp(name, "xdp") == 0)
		argp_error(state, "this program was built without the xdp dataplane (it needs "
				  "clang, bpftool and libbpf when it is built)");
#endif
	argp_error(state, "--dataplane is udp or xdp, not '%s'", name);
	return NULL;
}

static enum sml_xdp_mode xdp_mode(struct argp_state *state, const char *name)
{
	static const char *const names[] = {"auto", "native", "generic"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return (enum sml_xdp_mode)i;
	argp_error(state, "--xdp-mode is auto, native or generic, not '%s'", name);
	return SML_XDP_AUTO;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct sml_switch_config *config = state->input;

	switch (key) {
	case 'l':
		config->listen = text;
		break;
	case 'v':
		config->debug++;
		break;
	case OPTION_DATA_PORT:
		config->data_port = (uint16_t)number(state, "data-port", text, 1, 65535);
		break;
	case OPTION_SLOTS:
		config->max_slots = number(state, "slots", text, 16, 1u << 20);
		break;
	case OPTION_JOBS:
		config->max_jobs = number(state, "jobs", text, 1, 256);
		break;
	case OPTION_THREADS:
		config->threads = number(state, "threads", text, 1, 64);
		break;
	case 'i':
		config->interfaces = text;
		break;
	case OPTION_DATAPLANE:
		config->dataplane = dataplane(state, text);
		break;
	case OPTION_XDP_MODE:
		config->xdp_mode = xdp_mode(state, text);
		break;
	case OPTION_HEARTBEAT:
		config->heartbeat_ms = 1000 * number(state, "heartbeat", text, 1, 86400);
		break;
	case OPTION_TLS_CERTIFICATE:
		config->tls.certificate = text;
		break;
	case OPTION_TLS_KEY:
		config->tls.key = text;
		break;
	case OPTION_TLS_AUTHORITY:
		config->tls.authority = text;
		break;
	case OPTION_KEY_FILE:
		config->job_key = (struct sml_key_source){.file = text};
		break;
	case OPTION_MULTICAST:
		config->multicast = text;
		break;
	case OPTION_MULTICAST_HOPS:
		config->multicast_hops = number(state, "multicast-hops", text, 1, 255);
		break;
	case ARGP_KEY_END:
		if (config->interfaces != NULL && config->dataplane == NULL)
			argp_error(state, "--iface is for --dataplane xdp");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp parser = {
	.options = option_list,
	.parser = parse,
	.doc = "Run a SwitchML switch on this machine: it adds up the workers' packets "
	       "and sends them the sums. Workers find it through "
	       "SWITCHML_SWITCH=HOST:PORT. It needs no privileges; with CAP_NET_ADMIN, "
	       "its socket buffers can be larger than net.core.rmem_max. --dataplane xdp "
	       "needs CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON to start. Once its sockets "
	       "are open, it gives up all of these (xdp keeps CAP_BPF), and root becomes "
	       "nobody.\v"
	       "It listens on a TCP port for control and a UDP port with the same number "
	       "for data: allow both in firewalls. SIGTERM or SIGINT ends it, and it "
	       "tells the workers.",
};

/* One line when the switch can be used: programs that start a switch wait for it. */
static void print_ready(const struct sml_switch_config *config, const struct sml_switch *running)
{
	char dataplane[512];
	const char *listen = config->listen ? config->listen : "";
	struct sml_host_port place;
	bool is_v6;

	sml_host_port_parse(listen, strlen(listen), &place);
	if (place.host[0] == '\0')
		strcpy(place.host, "::");
	is_v6 = strchr(place.host, ':') != NULL;
	printf("switchml switch: ready on %s%s%s:%d (tcp control, udp data", is_v6 ? "[" : "",
	       place.host, is_v6 ? "]" : "", sml_switch_port(running));
	if (config->data_port != 0)
		printf(" on port %d", config->data_port);
	sml_switch_describe(running, dataplane, sizeof(dataplane));
	printf("), %u slots, %u jobs, %s%s\n", config->max_slots, config->max_jobs, dataplane,
	       config->tls.certificate ? ", control by TLS 1.3 only" : "");
	fflush(stdout);
}

/* Anyone who reaches the port could take part. */
static void warn_of_strangers(const struct sml_switch_config *config)
{
	const char *listen = config->listen ? config->listen : "";
	struct sml_host_port place;

	if (config->tls.certificate != NULL || config->job_key.secret != NULL ||
	    config->job_key.file != NULL)
		return;
	if (sml_host_port_parse(listen, strlen(listen), &place) && *place.host != '\0' &&
	    strcmp(place.host, "0.0.0.0") != 0 && strcmp(place.host, "::") != 0)
		return;
	fprintf(stderr, "switchml switch: warning: the switch listens on all addresses, and anyone "
			"who reaches it can take part: name an address with --listen, or set "
			"SWITCHML_JOB_KEY\n");
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

/*
 * The key has been derived: wipe the secret, which is not needed any more in this long-lived
 * process.
 */
static void forget_secret(void)
{
	char *secret = getenv(sml_key_variables.secret);

	if (secret != NULL)
		explicit_bzero(secret, strlen(secret));
}

int sml_command_switch(int argc, char **argv)
{
	struct sml_switch_config config;
	struct sml_switch *running;
	sigset_t ends;
	int received;

	sml_switch_config_init(&config);
	config.tls = sml_ask_tls_files();
	config.job_key = sml_ask_key_source();
	argp_parse(&parser, argc, argv, 0, NULL, &config);
	/* Blocked before there are threads, so that all inherit it. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	raise_file_limit();
	config.seal = sml_privileges_drop;
	warn_of_strangers(&config);
	if (sml_switch_open(&running, &config) < 0) {
		fprintf(stderr, "switchml switch: %s\n", sml_error_last());
		return 1;
	}
	forget_secret();
	sml_privileges_filter(config.dataplane != NULL);
	print_ready(&config, running);
	sigwait(&ends, &received);
	sml_switch_close(running);
	printf("switchml switch: ended by %s\n", strsignal(received));
	return 0;
}
