/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks' reports mean: a line for each fault, and what to do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/peers.h"

/* Logs, traces and certificates of several hosts need no better clocks. */
#define CLOCK_MS 100.0
#define HEADERS	 28

const char *peers_text(const struct peers *peers, unsigned rank, const char *member)
{
	const char *text = json_string_value(json_object_get(peers->ranks[rank].hello, member));

	return text ? text : "?";
}

json_t *peers_pair(const struct peers *peers, unsigned from, unsigned to)
{
	json_t *report = peers->ranks[peers->hosts[from].rank].report;

	return json_array_get(json_object_get(report, "report"), to);
}

static int number_of(const json_t *object, const char *member)
{
	return (int)json_integer_value(json_object_get(object, member));
}

/* What arrives is the receiver's news. */
unsigned peers_largest(const struct peers *peers, unsigned from, unsigned to)
{
	int heard = number_of(peers_pair(peers, to, from), "heard");
	bool v6 = strchr(peers->ranks[peers->hosts[to].rank].address, ':') != NULL;

	return heard > 0 ? (unsigned)heard + HEADERS + (v6 ? 20 : 0) : 0;
}

/*
 * A host's name; with its address, if another host has the same name, as containers may. The texts
 * of a sentence are in use together.
 */
static const char *name_of(const struct peers *peers, unsigned host)
{
	static char texts[4][128];
	static unsigned next;
	const struct peers_rank *rank = &peers->ranks[peers->hosts[host].rank];
	const char *name = peers_text(peers, peers->hosts[host].rank, "name");

	for (unsigned i = 0; i < peers->n_hosts; i++) {
		if (i == host || strcmp(name, peers_text(peers, peers->hosts[i].rank, "name")) != 0)
			continue;
		next = (next + 1) % 4;
		snprintf(texts[next], sizeof(texts[next]), "%.60s at %.60s", name, rank->address);
		return texts[next];
	}
	return name;
}

/* ---- ranks ---- */

/* What the rank and rank 0 do not have in common decides, not what their releases are called. */
static bool judge_version(struct peers *peers, unsigned rank)
{
	const int first = number_of(peers->ranks[0].hello, "protocol"),
		  own = number_of(peers->ranks[rank].hello, "protocol");
	char protocol[32] = "before 22";

	if (first == own || !peers->ranks[0].hello)
		return true;
	if (own != 0)
		snprintf(protocol, sizeof(protocol), "%d", own);
	doctor_say(peers->doctor, DOCTOR_PROBLEM, "version",
		   "rank %u on %s (%s) has control protocol %s, rank 0 (%s) has %d", rank,
		   name_of(peers, peers->ranks[rank].host), peers_text(peers, rank, "version"),
		   protocol, peers_text(peers, 0, "version"), first);
	doctor_fix(peers->doctor, "install the same release on all hosts");
	return false;
}

static const struct {
	const char *name;
	enum doctor_level level; /* where it differs */
} rules[] = {
	{"SWITCHML_JOB", DOCTOR_PROBLEM},	   {"SWITCHML_SWITCH", DOCTOR_PROBLEM},
	{"SWITCHML_WORLD_SIZE", DOCTOR_PROBLEM},   {"SWITCHML_WIRE", DOCTOR_PROBLEM},
	{"SWITCHML_JOB_KEY_FILE", DOCTOR_PROBLEM}, {"SWITCHML_THREADS", DOCTOR_WARNING},
	{"SWITCHML_SLOTS", DOCTOR_WARNING},	   {"SWITCHML_MTU", DOCTOR_WARNING},
	{"SWITCHML_TIMEOUT", DOCTOR_WARNING},	   {"SWITCHML_HEARTBEAT", DOCTOR_WARNING},
	{"SWITCHML_PORTS", DOCTOR_WARNING},
};

static void judge_settings(struct peers *peers, unsigned rank)
{
	const json_t *first = json_object_get(peers->ranks[0].hello, "settings");
	const json_t *own = json_object_get(peers->ranks[rank].hello, "settings");

	for (size_t i = 0; first && own && i < sizeof(rules) / sizeof(rules[0]); i++) {
		json_t *a = json_object_get(first, rules[i].name);
		json_t *b = json_object_get(own, rules[i].name);
		char *here, *there;

		if (json_equal(a, b))
			continue;
		here = json_dumps(b, JSON_ENCODE_ANY);
		there = json_dumps(a, JSON_ENCODE_ANY);
		doctor_say(peers->doctor, rules[i].level, "settings",
			   "%s of rank %u on %s is %s, that of rank 0 is %s", rules[i].name, rank,
			   name_of(peers, peers->ranks[rank].host), here ? here : "unset",
			   there ? there : "unset");
		doctor_fix(peers->doctor, "set it to the same value on all ranks");
		free(here);
		free(there);
	}
}

static void judge_clock(struct peers *peers, unsigned rank)
{
	const struct peers_rank *self = &peers->ranks[rank];

	/* One line for each host. */
	if (peers->hosts[self->host].rank != rank ||
	    fabs(self->offset_ms) < CLOCK_MS + self->error_ms)
		return;
	doctor_say(peers->doctor, DOCTOR_WARNING, "clock", "the clock of %s is %.1f s %s rank 0's",
		   name_of(peers, peers->ranks[rank].host), fabs(self->offset_ms) / 1e3,
		   self->offset_ms > 0 ? "ahead of" : "behind");
	doctor_fix(peers->doctor, "run an NTP client there (chrony, systemd-timesyncd)");
}

void peers_judge_ranks(struct peers *peers)
{
	for (unsigned i = 0; i < peers->n_ranks; i++) {
		if (!peers->ranks[i].hello)
			continue;
		/* Another release has other settings, too: they are not the cause. */
		if (judge_version(peers, i))
			judge_settings(peers, i);
		judge_clock(peers, i);
	}
}

/* ---- pairs of hosts ---- */

static const char *address_of(const struct peers *peers, unsigned host)
{
	return peers->ranks[peers->hosts[host].rank].address;
}

static const char *ports_of(const struct peers *peers)
{
	return peers->config->ports ? peers->config->ports
				    : "(set SWITCHML_PORTS=FIRST-LAST on all ranks)";
}

static void judge_udp(struct peers *peers, unsigned from, unsigned to)
{
	enum doctor_level level = peers->embedded ? DOCTOR_PROBLEM : DOCTOR_WARNING;

	doctor_say(peers->doctor, level, "udp", "UDP from %s (%s) does not arrive at %s (%s)%s%s",
		   name_of(peers, from), address_of(peers, from), name_of(peers, to),
		   address_of(peers, to),
		   peers_largest(peers, to, from) ? "; the other direction works" : "",
		   peers->embedded ? "" : "; with a switch, ranks do not need it");
	doctor_fix(peers->doctor,
		   "let %s's firewall pass UDP from %s to ports %s (docs/deploying.md#firewalls)",
		   name_of(peers, to), address_of(peers, from), ports_of(peers));
}

/* Smaller than the sender's interface takes, though the receiver's takes as much. */
static void judge_path(struct peers *peers, unsigned from, unsigned to)
{
	unsigned largest = peers_largest(peers, from, to);
	const json_t *heard = peers_pair(peers, to, from);

	if (number_of(heard, "heard") >= number_of(heard, "wanted") ||
	    peers->hosts[to].mtu < (unsigned)number_of(heard, "wanted") + HEADERS)
		return;
	doctor_say(peers->doctor, DOCTOR_WARNING, "mtu",
		   "packets of more than %u bytes from %s to %s are lost, although the interfaces "
		   "take "
		   "%u",
		   largest, name_of(peers, from), name_of(peers, to), peers->hosts[from].mtu);
	doctor_fix(peers->doctor,
		   "raise the MTU of the devices between them, or lower it on the hosts");
}

static void judge_tcp(struct peers *peers, unsigned from, unsigned to)
{
	const char *tcp = json_string_value(json_object_get(peers_pair(peers, from, to), "tcp"));

	if (!tcp || strcmp(tcp, "ok") == 0)
		return;
	doctor_say(peers->doctor, DOCTOR_WARNING, "tcp",
		   "TCP from %s to %s (%s): %s; MPI and PyTorch need it, SwitchML only to rank 0",
		   name_of(peers, from), name_of(peers, to), address_of(peers, to), tcp);
	doctor_fix(peers->doctor, "let %s's firewall pass TCP from %s to ports %s",
		   name_of(peers, to), address_of(peers, from), ports_of(peers));
}

/* What is wrong with the name of `to` on host `from`; NULL: nothing. */
static const char *fault_of_name(const struct peers *peers, unsigned from, unsigned to)
{
	const char *name = json_string_value(json_object_get(peers_pair(peers, from, to), "name"));

	return from == to || !name || strcmp(name, "ok") == 0 ? NULL : name;
}

/* One line for all hosts where the name has the same fault, told at the first of them. */
static void judge_name(struct peers *peers, unsigned from, unsigned to)
{
	const char *fault = fault_of_name(peers, from, to);
	char others[32] = "";
	unsigned n = 0;

	for (unsigned i = 0; fault && i < peers->n_hosts; i++) {
		const char *same = fault_of_name(peers, i, to);

		if (!same || strcmp(same, fault) != 0)
			continue;
		if (i < from)
			return;
		n += i > from;
	}
	if (!fault)
		return;
	if (n > 0)
		snprintf(others, sizeof(others), " and %u other host%s", n, n == 1 ? "" : "s");
	doctor_say(peers->doctor, DOCTOR_WARNING, "name",
		   "on %s%s, the name %s: %s (its address is %s)", name_of(peers, from), others,
		   name_of(peers, to), fault, address_of(peers, to));
	doctor_fix(peers->doctor, "add \"%s %s\" to /etc/hosts there, or to the name server",
		   address_of(peers, to), name_of(peers, to));
}

static void judge_pair(struct peers *peers, unsigned from, unsigned to)
{
	if (peers_pair(peers, to, from) && peers_largest(peers, from, to) == 0)
		judge_udp(peers, from, to);
	else if (peers_pair(peers, to, from))
		judge_path(peers, from, to);
	judge_tcp(peers, from, to);
	judge_name(peers, from, to);
}

/* ---- hosts ---- */

static void find_mtus(struct peers *peers)
{
	for (unsigned i = 0; i < peers->n_hosts; i++)
		for (unsigned j = 0; j < peers->n_hosts; j++) {
			int mtu = number_of(peers_pair(peers, i, j), "mtu");

			/* Towards itself, it is the loopback's. */
			if (i != j && mtu > (int)peers->hosts[i].mtu)
				peers->hosts[i].mtu = (unsigned)mtu;
		}
}

static void judge_mtu(struct peers *peers, unsigned host)
{
	unsigned most = 0;

	for (unsigned i = 0; i < peers->n_hosts; i++)
		most = peers->hosts[i].mtu > most ? peers->hosts[i].mtu : most;
	if (peers->hosts[host].mtu == 0 || peers->hosts[host].mtu >= most)
		return;
	doctor_say(peers->doctor, DOCTOR_WARNING, "mtu",
		   "the MTU of %s is %u, others have %u: all packets of a job have to fit the "
		   "smallest MTU",
		   name_of(peers, host), peers->hosts[host].mtu, most);
	doctor_fix(peers->doctor, "on %s: ip link set dev INTERFACE mtu %u", name_of(peers, host),
		   most);
}

/* What the host has found at the switches. */
static void pass_on(struct peers *peers, unsigned host)
{
	const struct peers_rank *rank = &peers->ranks[peers->hosts[host].rank];
	json_t *fault;
	size_t i;

	if (!rank->report) {
		doctor_say(peers->doctor, DOCTOR_PROBLEM, "ranks",
			   "rank %u on %s has ended, or does not answer", peers->hosts[host].rank,
			   name_of(peers, host));
		doctor_fix(peers->doctor, "look at what it says");
		return;
	}
	json_array_foreach(json_object_get(rank->at_switch, "switch"), i, fault)
	{
		const char *fact = "", *fix = "";
		int level = DOCTOR_PROBLEM;

		(void)json_unpack(fault, "{s:i, s:s, s:s}", "level", &level, "fact", &fact, "fix",
				  &fix);
		doctor_say(peers->doctor, level == DOCTOR_WARNING ? DOCTOR_WARNING : DOCTOR_PROBLEM,
			   "switch", "from %s: %.200s", name_of(peers, host), fact);
		doctor_fix(peers->doctor, "%.250s", fix);
	}
}

void peers_judge_pairs(struct peers *peers)
{
	find_mtus(peers);
	for (unsigned i = 0; i < peers->n_hosts; i++) {
		pass_on(peers, i);
		judge_mtu(peers, i);
		for (unsigned j = 0; j < peers->n_hosts; j++)
			if (i != j)
				judge_pair(peers, i, j);
	}
}
