/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of `switchml switch`, from the command line and from a file. */
#include "cmd/switch/daemon.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/word.h"
#include "cmd/shared/command.h"
#include "cmd/shared/status_client.h"
#include "switch/dataplane.h"
#include "switch/switch.h"
#include "switchml.h"

enum {
	OPTION_CONFIG = 256,
	OPTION_DATA_PORT,
	OPTION_SLOTS,
	OPTION_JOBS,
	OPTION_THREADS,
	OPTION_HEARTBEAT,
	OPTION_TLS_CERTIFICATE,
	OPTION_TLS_KEY,
	OPTION_TLS_AUTHORITY,
	OPTION_KEY_FILE,
	OPTION_DATAPLANE,
	OPTION_IFACE,
	OPTION_DEBUG,
	OPTION_XDP_MODE,
	OPTION_LOG_JSON,
	OPTION_METRICS,
	OPTION_TARGET,
	OPTION_HOSTS,
	OPTION_PARENT,
	OPTION_PORT
};

static const struct argp_option option_list[] = {
	{"config", OPTION_CONFIG, "FILE", 0,
	 "Read settings from this file: lines of NAME = VALUE with the names of these options. "
	 "Options on the command line win. SIGHUP reads the file again (" SML_SWITCH_FILE
	 " if it exists; an empty name reads none)",
	 0},
	{"port", OPTION_PORT, "PORT", OPTION_HIDDEN, NULL, 0},
	{"listen", 'l', "ADDR[:PORT]", 0,
	 "Address to listen on (all addresses, port 28500). Port 0 selects a free port", 0},
	{"data-port", OPTION_DATA_PORT, "PORT", 0, "UDP port for data (the control port's number)",
	 0},
	{"slots", OPTION_SLOTS, "N", 0,
	 "Slots of all jobs together (4096; with --dataplane p4: 1024, as its programs have)", 0},
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
	 "file: 16 to 1024 bytes that no other user may read (SWITCHML_JOB_KEY_FILE)",
	 0},
	{"dataplane", OPTION_DATAPLANE, "NAME", 0,
	 "udp (default), xdp: in the kernel, on the interfaces of --iface, or p4: in the P4 switch "
	 "of --target",
	 0},
	{"iface", OPTION_IFACE, "NAME[,NAME...]", 0,
	 "For xdp: the interfaces that lead to the workers", 0},
	{"xdp-mode", OPTION_XDP_MODE, "MODE", 0,
	 "auto (default: in the driver if possible, else generic), native, or generic", 0},
	{"target", OPTION_TARGET, "[PROTOCOL://]HOST:PORT", 0,
	 "For p4: the control port of the P4 switch. The protocol is thrift (default), of BMv2's "
	 "simple_switch, or bfrt, of bf_switchd on a Tofino switch (experimental: it has never run "
	 "on one), which /DEVICE may follow (0). --listen must then name the address to which the "
	 "workers connect",
	 0},
	{"hosts", OPTION_HOSTS, "MAC=PORT[,MAC=PORT...]", 0,
	 "For p4: the port of the P4 switch at which each host is, including this one; the P4 "
	 "switch forwards all other traffic by this list",
	 0},
	{"parent", OPTION_PARENT, "HOST[:PORT]", 0,
	 "Be a leaf of that switch: add up the packets of the workers here, and send one sum to "
	 "the parent (port 28500). The workers of a job may be at several leaves and at the "
	 "parent itself. Not available with --dataplane p4",
	 0},
	{"debug", OPTION_DEBUG, "LEVEL", 0,
	 "error: report only what stops the switch; warn (default): also failed jobs; info: also "
	 "refused connections; trace: also jobs that run or end, and libbpf's lines",
	 0},
	{"verbose", 'v', NULL, 0, "The next level; on the command line only", 0},
	{"log-json", OPTION_LOG_JSON, NULL, 0,
	 "Write each line of the log as one JSON object, for programs (in the file: yes or no)", 0},
	{"metrics", OPTION_METRICS, "ADDR[:PORT]", 0,
	 "Serve metrics for Prometheus over HTTP at this address (port "
	 "28501; :PORT alone is at the loopback address). Anyone who reaches it can read the "
	 "names of jobs and hosts",
	 0},
	{0},
};

/* Where a value comes from, and what it is for. */
struct reader {
	struct sml_switch_options *options;
	struct argp_state *state;		  /* the command line's; NULL: the file's */
	const struct sml_switch_setting *setting; /* the file's */
	char *text;				  /* the first thing that is wrong in the file */
	size_t bytes;
};

/* A setting has its option's name, without dashes. */
static const char *dashes(const struct reader *reader)
{
	return reader->setting != NULL ? "" : "--";
}

/* A value that cannot be taken: the command line's ends the program, the file's is told. */
__attribute__((format(printf, 2, 3))) static void refuse(struct reader *reader, const char *format,
							 ...)
{
	char line[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (reader->setting == NULL)
		argp_error(reader->state, "%s", line);
	else if (*reader->text == '\0')
		snprintf(reader->text, reader->bytes, "%s, line %d: %s", reader->options->path,
			 reader->setting->line, line);
}

static uint32_t number(struct reader *reader, const char *option, const char *text, uint32_t lowest,
		       uint32_t highest)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value < lowest || value > highest)
		refuse(reader, "%s%s must be a number from %u to %u, not '%s'", dashes(reader),
		       option, lowest, highest, text);
	return (uint32_t)value;
}

static const struct sml_dataplane_operations *dataplane(struct reader *reader, const char *name)
{
	if (strcmp(name, "udp") == 0)
		return NULL;
#ifdef SML_HAVE_XDP
	if (strcmp(name, "xdp") == 0)
		return &sml_dataplane_xdp;
#else
	if (strcmp(name, "xdp") == 0)
		refuse(reader, "this program was built without the xdp dataplane (it needs "
			       "clang, bpftool and libbpf when it is built)");
#endif
	if (strcmp(name, "p4") == 0)
		return &sml_dataplane_p4;
	refuse(reader, "%sdataplane is udp, xdp or p4, not '%s'", dashes(reader), name);
	return NULL;
}

static enum sml_xdp_mode xdp_mode(struct reader *reader, const char *name)
{
	static const char *const names[] = {"auto", "native", "generic"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return (enum sml_xdp_mode)i;
	refuse(reader, "%sxdp-mode is auto, native or generic, not '%s'", dashes(reader), name);
	return SML_XDP_AUTO;
}

/* A switch of the command line has no value: then it is on. */
static bool is_on(struct reader *reader, const char *option, const char *text)
{
	int value = 1;

	if (text != NULL && !sml_parse_word(sml_switch_words, 1, text, &value))
		refuse(reader, "%s%s must be " SML_SWITCH_ALLOWED ", not '%s'", dashes(reader),
		       option, text);
	return value == 1;
}

/* The settings that are texts, and the members of the options that keep them. */
static const struct {
	int key;
	size_t member;
} texts[] = {
	{'l', offsetof(struct sml_switch_options, config.listen)},
	{OPTION_IFACE, offsetof(struct sml_switch_options, config.interfaces)},
	{OPTION_METRICS, offsetof(struct sml_switch_options, metrics)},
	{OPTION_TARGET, offsetof(struct sml_switch_options, config.target)},
	{OPTION_HOSTS, offsetof(struct sml_switch_options, config.hosts)},
	{OPTION_PARENT, offsetof(struct sml_switch_options, config.parent)},
	{OPTION_TLS_CERTIFICATE, offsetof(struct sml_switch_options, config.tls.certificate)},
	{OPTION_TLS_KEY, offsetof(struct sml_switch_options, config.tls.key)},
	{OPTION_TLS_AUTHORITY, offsetof(struct sml_switch_options, config.tls.authority)},
	{OPTION_KEY_FILE, offsetof(struct sml_switch_options, config.job_key.file)},
};

/* Where the text is; NULL: the option has none. */
static const char *const *text_of(const struct sml_switch_options *options, int key)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].key == key)
			return (const char *const *)((const char *)options + texts[i].member);
	return NULL;
}

static error_t take_setting(struct reader *reader, int key, const char *text)
{
	struct sml_switch_config *config = &reader->options->config;
	const char **kept = (const char **)(uintptr_t)text_of(reader->options, key);

	if (kept != NULL)
		*kept = text;
	switch (key) {
	case OPTION_PORT:
		refuse(reader, "%sport: the port is a part of %slisten: %slisten :%s",
		       dashes(reader), dashes(reader), dashes(reader), text != NULL ? text : "");
		break;
	case 'v':
		if (text != NULL)
			refuse(reader, "verbose is an option: the setting is debug = LEVEL");
		config->debug += config->debug < SML_LOG_TRACE;
		break;
	case OPTION_DEBUG:
		if (!sml_parse_word(sml_level_words, SML_LOG_TRACE, text, &config->debug))
			refuse(reader, "%sdebug is " SML_LEVELS_ALLOWED ", not '%s'",
			       dashes(reader), text);
		break;
	case OPTION_METRICS:
#ifndef SML_HAVE_METRICS
		refuse(reader,
		       "this program was built without %smetrics (it needs libmicrohttpd "
		       "when it is built)",
		       dashes(reader));
#endif
		break;
	case OPTION_LOG_JSON:
		reader->options->log_json = is_on(reader, "log-json", text);
		break;
	case OPTION_CONFIG:
		break; /* before all others: find_path() */
	case OPTION_DATA_PORT:
		config->data_port = (uint16_t)number(reader, "data-port", text, 1, 65535);
		break;
	case OPTION_SLOTS:
		config->max_slots = number(reader, "slots", text, 16, 1u << 20);
		reader->options->has_slots = true;
		break;
	case OPTION_JOBS:
		config->max_jobs = number(reader, "jobs", text, 1, 256);
		break;
	case OPTION_THREADS:
		config->threads = number(reader, "threads", text, 1, 64);
		break;
	case OPTION_DATAPLANE:
		config->dataplane = dataplane(reader, text);
		break;
	case OPTION_XDP_MODE:
		config->xdp_mode = xdp_mode(reader, text);
		break;
	case OPTION_HEARTBEAT:
		config->heartbeat_ms = 1000 * number(reader, "heartbeat", text, 1, 86400);
		break;
	default:
		return kept != NULL ? 0 : ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- the file ---- */

static int key_of(const char *name)
{
	for (const struct argp_option *option = option_list; option->name != NULL; option++)
		if (strcmp(option->name, name) == 0 && option->key != OPTION_CONFIG)
			return option->key;
	return 0;
}

static const char *setting_name(size_t i)
{
	return option_list[i].name;
}

/* Into the options, whose strings the file then holds. The same result as of reading. */
static int take_file(struct sml_switch_options *options)
{
	const struct sml_switch_file *file = &options->file;
	char why[512] = "", meant[SML_MEANT_BYTES];
	struct reader reader = {.options = options, .text = why, .bytes = sizeof(why)};

	for (size_t i = 0; i < file->n && *why == '\0'; i++) {
		reader.setting = &file->settings[i];
		if (take_setting(&reader, key_of(reader.setting->name), reader.setting->value) != 0)
			refuse(&reader,
			       "there is no setting '%s'%s; switchml switch --help lists them",
			       reader.setting->name,
			       sml_meant(reader.setting->name, setting_name, meant));
	}
	if (*why == '\0')
		return 0;
	return sml_error_set(-EINVAL, "%s", why);
}

/* ---- the command line ---- */

static error_t note_path(int key, char *text, struct argp_state *state)
{
	const char **path = state->input;

	if (key == OPTION_CONFIG)
		*path = text;
	return 0;
}

/*
 * The configuration file's path. It is needed before the options are parsed, because options take
 * precedence over the file. argp looks for it, because an option's name may be abbreviated. Wrong
 * options are reported later.
 */
static const char *find_path(int argc, char **argv)
{
	static const struct argp noter = {.options = option_list, .parser = note_path};
	const char *path = access(SML_SWITCH_FILE, F_OK) == 0 ? SML_SWITCH_FILE : NULL;

	(void)argp_parse(&noter, argc, argv, ARGP_SILENT, NULL, &path);
	return path != NULL && *path != '\0' ? path : NULL;
}

/* What p4/v1model/switchml.p4 is compiled for, unless -DSML_SLOTS says otherwise. */
#define P4_SLOTS 1024

static void set_defaults(struct sml_switch_config *config)
{
	sml_switch_config_init(config);
	config->tls = sml_environment_tls_files();
	config->job_key = sml_environment_key_source();
}

static bool has_dataplane(const struct sml_switch_config *config, const char *name)
{
	return config->dataplane != NULL && strcmp(config->dataplane->name, name) == 0;
}

static void end_with(const char *why)
{
	fprintf(stderr, "switchml switch: %s\n", why);
	exit((int)argp_err_exit_status);
}

/* A value that another dataplane does not use is a mistake, of the command line's or the file's. */
static void refuse_unless(struct argp_state *state, const char *wanted, const char *name,
			  const char *value)
{
	struct sml_switch_options *options = state->input;
	const struct sml_switch_setting *setting = sml_switch_file_find(&options->file, name);
	char why[512] = "";
	struct reader reader = {
		.options = options, .state = state, .text = why, .bytes = sizeof(why)};

	if (value == NULL || has_dataplane(&options->config, wanted))
		return;
	if (setting != NULL && setting->value == value)
		reader.setting = setting;
	refuse(&reader, "%s%s is for %sdataplane%s%s", dashes(&reader), name, dashes(&reader),
	       reader.setting != NULL ? " = " : " ", wanted);
	if (*why != '\0')
		end_with(why);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct sml_switch_options *options = state->input;
	struct reader reader = {.options = options, .state = state};

	if (key != ARGP_KEY_END)
		return take_setting(&reader, key, text);
	if (options->is_again)
		return 0;
	if (!options->has_slots && has_dataplane(&options->config, "p4"))
		options->config.max_slots = P4_SLOTS;
	refuse_unless(state, "xdp", "iface", options->config.interfaces);
	refuse_unless(state, "p4", "target", options->config.target);
	refuse_unless(state, "p4", "hosts", options->config.hosts);
	return 0;
}

static const struct argp parser = {
	.options = option_list,
	.parser = parse_option,
	.doc = "Run a SwitchML switch on this machine: it adds up the workers' packets "
	       "and sends them the sums. Workers find it through "
	       "SWITCHML_SWITCH=HOST:PORT. It needs no privileges; with CAP_NET_ADMIN, "
	       "its socket buffers can be larger than net.core.rmem_max. --dataplane xdp "
	       "needs CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON to start. Once its sockets "
	       "are open, it gives up all of these (xdp keeps CAP_BPF), and root becomes "
	       "nobody.\v"
	       "The switch listens on a TCP port for control and a UDP port with the same "
	       "number for data: allow both in firewalls. On SIGTERM or SIGINT, it tells "
	       "the workers and ends.\n\n"
	       "A switch for all workers that reach this host, and one in the kernel for those "
	       "at two ports:\n"
	       "  switchml switch\n"
	       "  switchml switch --dataplane xdp --iface eth1,eth2\n\n"
	       "`switchml status' and `switchml top' show its jobs.",
};

void sml_switch_options_read(struct sml_switch_options *options, int argc, char **argv)
{
	*options = (struct sml_switch_options){
		.path = find_path(argc, argv), .argc = argc, .argv = argv};
	set_defaults(&options->config);
	if (options->path != NULL &&
	    (sml_switch_file_read(&options->file, options->path) < 0 || take_file(options) < 0))
		end_with(sml_error_last());
	sml_options_parse(&parser, argc, argv, options);
}

/* ---- an error that comes later ---- */

/* Is "--name" in the text, and not as the beginning of a longer name? */
static bool names_option(const char *text, const char *name)
{
	const size_t bytes = strlen(name);

	for (const char *at = text; (at = strstr(at, "--")) != NULL; at += 2)
		if (strncmp(at + 2, name, bytes) == 0 && at[2 + bytes] != '-' &&
		    !isalnum((unsigned char)at[2 + bytes]))
			return true;
	return false;
}

void sml_switch_options_location(const struct sml_switch_options *options, const char *error,
				 char *text, size_t bytes)
{
	*text = '\0';
	for (const struct argp_option *option = option_list; option->name != NULL; option++) {
		const struct sml_switch_setting *setting =
			sml_switch_file_find(&options->file, option->name);
		const char *const *kept = text_of(options, option->key);

		/* The command line's value may be equal, but it is another string. */
		if (setting == NULL || kept == NULL || *kept != setting->value ||
		    !names_option(error, option->name))
			continue;
		snprintf(text, bytes, " (%s, line %d: %s = %s)", options->path, setting->line,
			 setting->name, setting->value);
		return;
	}
}

/* ---- reading it again ---- */

static bool is_same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static const char *value_of(const struct sml_switch_file *file, const char *name)
{
	const struct sml_switch_setting *setting = sml_switch_file_find(file, name);

	return setting != NULL ? setting->value : NULL;
}

/* The names of settings that have changed and stay as they were: all but those that can change at
 * run time. */
static void name_others(const struct sml_switch_file *before, const struct sml_switch_file *after,
			char *text, size_t bytes)
{
	size_t used = 0;

	*text = '\0';
	for (const struct argp_option *option = option_list; option->name != NULL; option++) {
		if (option->key == OPTION_DEBUG || option->key == OPTION_HEARTBEAT ||
		    is_same(value_of(before, option->name), value_of(after, option->name)))
			continue;
		used += (size_t)snprintf(text + used, used < bytes ? bytes - used : 0, "%s%s",
					 used > 0 ? ", " : "", option->name);
		if (used >= bytes)
			return;
	}
}

int sml_switch_options_reread(struct sml_switch_options *options, struct sml_switch_config *now,
			      char *others, size_t bytes)
{
	struct sml_switch_options again = {.path = options->path,
					   .argc = options->argc,
					   .argv = options->argv,
					   .is_again = true};
	int rc;

	if (options->path == NULL)
		return sml_error_set(-ENOENT,
				     "there is no configuration file to read: see --config");
	set_defaults(&again.config);
	rc = sml_switch_file_read(&again.file, again.path);
	if (rc == 0)
		rc = take_file(&again);
	if (rc == 0) {
		/* It was parsed before: no mistake in it ends the program now. */
		argp_parse(&parser, again.argc, again.argv, 0, NULL, &again);
		*now = options->config;
		now->debug = again.config.debug;
		now->heartbeat_ms = again.config.heartbeat_ms;
		name_others(&options->file, &again.file, others, bytes);
	}
	sml_switch_file_free(&again.file);
	return rc;
}

void sml_switch_options_free(struct sml_switch_options *options)
{
	sml_switch_file_free(&options->file);
}
