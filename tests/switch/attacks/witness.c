/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of a separate job. It sends Ping while the attacks go on, and measures how much
 * processor time the switch's control thread uses until the Pong arrives. This time does not
 * depend on the load of the machine. It is short if the switch serves members first, and
 * strangers a little at a time.
 */
#include "attacks/witness.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/switch_client.h"

#define MAX_PINGS 100000

static struct client witness;
static char schedstat[400]; /* time of the control thread; "": it cannot be read */
static uint64_t costs_ns[MAX_PINGS];
static unsigned n_costs;

static bool is_control_thread(const char *pid, const char *task)
{
	char path[300], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/task/%s/comm", pid, task);
	file = fopen(path, "r");
	if (file == NULL)
		return false;
	if (fgets(name, sizeof(name), file) == NULL)
		name[0] = '\0';
	fclose(file);
	return strcmp(name, "sml-control\n") == 0;
}

static void find_control_thread(const char *pid)
{
	char folder[64];
	const struct dirent *entry;
	DIR *tasks;

	snprintf(folder, sizeof(folder), "/proc/%s/task", pid);
	tasks = opendir(folder);
	while (tasks != NULL && (entry = readdir(tasks)) != NULL)
		if (is_control_thread(pid, entry->d_name))
			snprintf(schedstat, sizeof(schedstat), "%s/%s/schedstat", folder,
				 entry->d_name);
	if (tasks != NULL)
		closedir(tasks);
}

static bool used_ns(uint64_t *ns)
{
	FILE *file = fopen(schedstat, "r");
	bool is_read = file != NULL && fscanf(file, "%" SCNu64, ns) == 1;

	if (file != NULL)
		fclose(file);
	return is_read;
}

void witness_open(const char *pid, uint16_t port, struct sml_tls *tls)
{
	SmlControl__Join join = client_join_message("witness", 0, 1);

	find_control_thread(pid);
	if (tls != NULL)
		client_open_tls(&witness, "127.0.0.1", port, tls);
	else
		client_open(&witness, "127.0.0.1", port);
	client_join(&witness, &join);
	client_admitted(&witness);
	client_probe(&witness, 0, witness.lanes);
	client_ready(&witness);
	client_started(&witness);
}

void witness_ping(void)
{
	uint64_t before_ns = 0, after_ns = 0;
	bool is_known = used_ns(&before_ns);

	client_send_empty(&witness, SML_CONTROL__ENVELOPE__BODY_PING);
	client_free(client_expect(&witness, SML_CONTROL__ENVELOPE__BODY_PONG));
	if (is_known && used_ns(&after_ns) && n_costs < MAX_PINGS)
		costs_ns[n_costs++] = after_ns - before_ns;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

bool witness_close(uint64_t most_ns)
{
	uint64_t median_ns;

	client_send_empty(&witness, SML_CONTROL__ENVELOPE__BODY_LEAVE);
	client_free(client_expect(&witness, SML_CONTROL__ENVELOPE__BODY_LEFT));
	client_close(&witness);
	if (n_costs == 0) {
		printf("left out: the kernel does not say what the control thread uses\n");
		return true;
	}
	qsort(costs_ns, n_costs, sizeof(costs_ns[0]), compare);
	median_ns = costs_ns[n_costs / 2];
	printf("%u Pongs, each after %.1f ms of the control thread's processor (worst %.1f ms)\n",
	       n_costs, (double)median_ns / 1e6, (double)costs_ns[n_costs - 1] / 1e6);
	return median_ns <= most_ns;
}
