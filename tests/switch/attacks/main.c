/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All attacks (attacks.h) at once, on a running job.
 *
 *	attacks CONTROL-PORT DATA-PORT JOB WORLD-SIZE MODE SWITCH PID…
 *
 * Ports are on 127.0.0.1. DATA-PORT 0 means that the ranks are the switches. SWITCH is the
 * PID of the attacked process, and PIDs are those of the job's ranks. MODE is "plain",
 * "tls", "key" or "embedded". With "tls" or "key", a rank's variables are set, and a rank's
 * hello is recorded and replayed. The program prints "begun", and "enough" after every
 * attack has done its minimum. It continues until its input ends. Then it prints what each
 * attack has done.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "attacks/attacks.h"
#include "attacks/witness.h"
#include "base/error.h"
#include "control/tls.h"

#define MAX_ATTACKS 32
#define WAIT_S	    2
/*
 * A turn takes 2 ms, and the thread runs while this one waits for a processor. If turns were
 * not bounded, they would take seconds.
 */
#define PONG_NS 100000000u

static struct victim victim;
static bool stopping; /* atomic */
static struct attack *running[MAX_ATTACKS];
static pthread_t threads[MAX_ATTACKS];
static unsigned n_running;

/* ---- the parts of attacks ---- */

void attack_done(struct attack *attack, uint64_t n)
{
	__atomic_fetch_add(&attack->done, n, __ATOMIC_RELAXED);
}

int attack_connect(const struct attack *attack)
{
	const struct timeval patience = {.tv_sec = WAIT_S};
	const struct sockaddr_in *to = &attack->victim->control;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0)
		return fd;
	close(fd);
	return -1;
}

bool attack_say(int fd, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;

	while (n > 0) {
		ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);

		/* The peer refused before everything was sent, so it has read at least a part. */
		if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
			return true;
		if (sent <= 0)
			return false;
		at += sent;
		n -= (size_t)sent;
	}
	return true;
}

bool attack_hear(int fd)
{
	uint8_t ignored[4096];
	ssize_t n = recv(fd, ignored, sizeof(ignored), 0);

	return n >= 0 || errno == ECONNRESET;
}

void attack_keep(struct attack *attack, int fd)
{
	struct herd *herd = &attack->herd;

	if (herd->n == attack->keeps)
		close(herd->fds[herd->next]);
	else
		herd->n++;
	herd->fds[herd->next] = fd;
	herd->next = (herd->next + 1) % attack->keeps;
}

static void *attack_main(void *argument)
{
	struct attack *attack = argument;

	while (!__atomic_load_n(&stopping, __ATOMIC_RELAXED)) {
		uint64_t before = __atomic_load_n(&attack->done, __ATOMIC_RELAXED);

		attack->act(attack);
		/* An attack that has done enough leaves the processor to those that have not. */
		if (before >= attack->enough)
			usleep(10000);
		/* This process or the peer has no room: pause instead of a busy loop. */
		else if (__atomic_load_n(&attack->done, __ATOMIC_RELAXED) == before)
			usleep(1000);
	}
	for (unsigned i = 0; i < attack->herd.n; i++)
		close(attack->herd.fds[i]);
	if (attack->fd >= 0)
		close(attack->fd);
	return NULL;
}

/* ---- the victim ---- */

static bool has_inode(const char *pid, unsigned long inode)
{
	char folder[64], name[320], target[64], wanted[64];
	const struct dirent *entry;
	bool found = false;
	DIR *fds;

	snprintf(folder, sizeof(folder), "/proc/%s/fd", pid);
	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	fds = opendir(folder);
	while (fds != NULL && !found && (entry = readdir(fds)) != NULL) {
		ssize_t n;

		snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
		n = readlink(name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		found = strcmp(target, wanted) == 0;
	}
	if (fds != NULL)
		closedir(fds);
	return found;
}

/* UDP ports of these processes, which anyone on the host may read. */
static void find_ports(const char *path, char **pids)
{
	FILE *table = fopen(path, "r");
	unsigned long inode;
	unsigned port;
	char line[256];

	while (table != NULL && fgets(line, sizeof(line), table) != NULL) {
		if (sscanf(line,
			   "%*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %*x %*x:%*x %*x:%*x %*x %*u %*u %lu",
			   &port, &inode) != 2)
			continue;
		for (char **pid = pids; *pid != NULL; pid++)
			if (victim.n_ports < ATTACKS_PORTS && has_inode(*pid, inode))
				victim.ports[victim.n_ports++] = (uint16_t)port;
	}
	if (table != NULL)
		fclose(table);
}

/* NULL: without variables. */
static struct sml_tls *open_tls(const char *mode)
{
	const struct sml_tls_files files = {getenv("SWITCHML_TLS_CERTIFICATE"),
					    getenv("SWITCHML_TLS_KEY"),
					    getenv("SWITCHML_TLS_AUTHORITY"), NULL};
	const struct sml_key_source key = {NULL, getenv("SWITCHML_JOB_KEY_FILE")};
	struct sml_tls *tls = NULL;

	if (strcmp(mode, "tls") != 0 && strcmp(mode, "key") != 0)
		return NULL;
	if (sml_tls_open_with_key(&tls, SML_TLS_WORKER, &files, &sml_tls_variables, &key,
				  &sml_key_variables) < 0 ||
	    tls == NULL) {
		fprintf(stderr, "attacks: %s\n", sml_error_last());
		exit(1);
	}
	return tls;
}

/* The hello of a rank that may join, for attackers that may not. */
static void record_hello(struct sml_tls *tls)
{
	struct evbuffer *in = evbuffer_new(), *out = evbuffer_new(), *wire = evbuffer_new();
	struct sml_tls_session *session = sml_tls_begin(tls, "127.0.0.1");

	if (session == NULL || sml_tls_step(session, NULL, in, out, wire) < 0)
		exit(1);
	victim.hello_bytes = (size_t)evbuffer_remove(wire, victim.hello, sizeof(victim.hello));
	sml_tls_end(session);
	evbuffer_free(in);
	evbuffer_free(out);
	evbuffer_free(wire);
}

static void set_address(struct sockaddr_in *address, const char *port)
{
	*address = (struct sockaddr_in){.sin_family = AF_INET};
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address->sin_port = htons((uint16_t)strtoul(port, NULL, 10));
}

/* ---- all attacks ---- */

static void start(struct attack *attacks)
{
	for (struct attack *attack = attacks; attack->name != NULL; attack++) {
		if (attack->needs_root && geteuid() != 0) {
			printf("left out: %s: raw sockets need root\n", attack->name);
			continue;
		}
		attack->victim = &victim;
		attack->fd = -1;
		gen_from_seed(&attack->gen, 20 + n_running);
		running[n_running] = attack;
		if (pthread_create(&threads[n_running++], NULL, attack_main, attack) != 0)
			exit(1);
	}
}

static bool all_have_done_enough(void)
{
	for (unsigned i = 0; i < n_running; i++)
		if (__atomic_load_n(&running[i]->done, __ATOMIC_RELAXED) < running[i]->enough)
			return false;
	return true;
}

/* The caller closes our input when it has seen enough, or when it gives up. */
static bool must_stop(int wait_ms)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, wait_ms) != 0;
}

static void stop(void)
{
	__atomic_store_n(&stopping, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < n_running; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < n_running; i++)
		printf("  %-28s %10" PRIu64 "%s\n", running[i]->name, running[i]->done,
		       running[i]->done < running[i]->enough ? " (not enough)" : "");
}

int main(int argc, char **argv)
{
	bool is_enough = false, has_witness, is_served = true;
	struct rlimit files;
	struct sml_tls *tls;

	if (argc < 8)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	set_address(&victim.control, argv[1]);
	set_address(&victim.data, argv[2]);
	victim.job = argv[3];
	victim.world_size = (uint32_t)strtoul(argv[4], NULL, 10);
	find_ports("/proc/net/udp", argv + 7);
	find_ports("/proc/net/udp6", argv + 7);
	if (victim.n_ports == 0) {
		fprintf(stderr, "attacks: no UDP port of a rank is found\n");
		return 1;
	}
	tls = open_tls(argv[5]);
	if (tls != NULL)
		record_hello(tls);
	/* Rank 0's own port serves only its job. */
	has_witness = strcmp(argv[5], "embedded") != 0;
	if (has_witness)
		witness_open(argv[6], ntohs(victim.control.sin_port), tls);
	start(attacks_on_control);
	start(attacks_on_handshakes);
	start(attacks_on_packets);
	printf("begun, on %u UDP ports of ranks\n", victim.n_ports);
	while (!must_stop(20)) {
		if (has_witness)
			witness_ping();
		if (!is_enough && all_have_done_enough())
			printf("enough\n");
		is_enough = is_enough || all_have_done_enough();
	}
	if (has_witness)
		is_served = witness_close(PONG_NS);
	stop();
	sml_tls_close(tls);
	return is_enough && is_served ? 0 : 1;
}
