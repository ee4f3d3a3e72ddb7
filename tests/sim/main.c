/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * build/tests/sim: run the protocol in the deterministic simulator with one seed or many, and
 * shrink failing worlds.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/control/control.h"
#include "sim/run.h"

#define MAX_SETTINGS 64
#define MAX_JOBS     64
/* Floats of --allreduce. Every rank has its own. */
#define MAX_COUNT (1u << 26)

/* The exit status when the simulator itself could not run. */
#define BROKEN 3

struct setting {
	char name[32];
	uint32_t value;
};

struct options {
	uint64_t seed, n_seeds;
	bool one, large, trees, minimize, quiet, control, elastic, plain;
	uint32_t count; /* of a plain world */
	enum sml_wire wire;
	unsigned jobs;
	struct setting settings[MAX_SETTINGS];
	unsigned n_settings;
};

/* What the jobs report to their parent: a fixed-size record for each batch of seeds. */
struct tally {
	uint64_t seeds, failed, events, resumes, hash, first_failed;
	uint64_t verdicts[SML_VERDICTS];
};

static void make_world(const struct options *options, uint64_t seed, struct sim_world *world)
{
	if (options->plain)
		sim_world_plain(world, seed, options->count, options->wire);
	else if (options->trees)
		sim_world_draw_tree(world, seed, !options->large);
	else
		sim_world_draw(world, seed, !options->large);
	for (unsigned i = 0; i < options->n_settings; i++)
		sim_world_set(world, options->settings[i].name, options->settings[i].value);
	if (options->n_settings || options->plain)
		sim_world_repair(world);
}

static void print_command(const struct options *options, uint64_t seed)
{
	printf("build/tests/sim%s --seed %" PRIu64 "%s%s",
	       options->elastic	  ? " --elastic"
	       : options->control ? " --control"
				  : "",
	       seed, options->trees ? " --trees" : "", options->large ? " --large" : "");
	if (options->plain)
		printf(" --allreduce %u%s", options->count,
		       options->wire == SML_WIRE_INT16	? " --wire int16"
		       : options->wire == SML_WIRE_INT8 ? " --wire int8"
							: "");
	for (unsigned i = 0; i < options->n_settings; i++)
		printf(" --set %s=%u", options->settings[i].name, options->settings[i].value);
	putchar('\n');
}

static void print_world(const struct sim_world *world)
{
#define PRINT_FIELD(name, text) printf("  %-16s %10u   %s\n", #name, world->name, text);
	SIM_WORLD_LIST(PRINT_FIELD)
#undef PRINT_FIELD
	for (uint32_t i = 0; i < world->n_deaths; i++)
		printf("  death %u: at %u us, noticed and replaced within %u us, then %u + %u "
		       "slots\n",
		       i, world->death_us[i], world->gone_us[i], world->next_head_slots[i],
		       world->next_data_slots[i]);
}

/* ---- shrinking ---- */

static struct setting *find_setting(struct options *options, const char *name)
{
	for (unsigned i = 0; i < options->n_settings; i++)
		if (strcmp(options->settings[i].name, name) == 0)
			return &options->settings[i];
	return NULL;
}

/* Does the changed world still fail? Then keep it; otherwise change nothing. */
static bool fails_with(struct options *options, const char *name, uint32_t value)
{
	static struct sim_world before, world;
	struct setting *setting = find_setting(options, name), saved;
	struct sim_result result = {.passed = true};
	bool is_new = setting == NULL;

	if (is_new && options->n_settings == MAX_SETTINGS)
		return false;
	make_world(options, options->seed, &before);
	if (is_new) {
		setting = &options->settings[options->n_settings++];
		snprintf(setting->name, sizeof(setting->name), "%s", name);
	}
	saved = *setting;
	setting->value = value;
	make_world(options, options->seed, &world);
	if (memcmp(&world, &before, sizeof(world)) != 0)
		sim_run(&world, &result);
	if (!result.passed)
		return true;
	*setting = saved;
	options->n_settings -= is_new;
	return false;
}

/* Reduce towards 0: turn the fault off, or halve it, and so on while it still fails. */
static bool shrink(struct options *options, const char *name, uint32_t value)
{
	bool any = false;

	if (value == 0)
		return false;
	if (fails_with(options, name, 0))
		return true;
	while (value > 1 && fails_with(options, name, value / 2)) {
		value /= 2;
		any = true;
	}
	return any;
}

static void minimize(struct options *options)
{
	static struct sim_world world;
	bool any = true;

	for (int round = 0; any && round < 4; round++) {
		any = false;
		make_world(options, options->seed, &world);
#define SHRINK_FIELD(name, text) any |= shrink(options, #name, world.name);
		SIM_WORLD_LIST(SHRINK_FIELD)
#undef SHRINK_FIELD
	}
	printf("smallest world that still fails:\n  ");
	print_command(options, options->seed);
}

static enum sim_control_kind kind_of(const struct options *options)
{
	if (options->elastic)
		return SIM_CONTROL_ELASTIC;
	return options->large ? SIM_CONTROL_WIDE : SIM_CONTROL_SMALL;
}

/* Every event, and how it ended. */
static int run_one_control(const struct options *options)
{
	struct sim_control_result result;

	sim_control_run(options->seed, kind_of(options), !options->quiet, &result);
	printf("seed %" PRIu64 ": %s\n  %" PRIu64 " events, %.3f s of virtual time, %" PRIu64
	       " ranks went on elsewhere; %" PRIu32 " ended well, %" PRIu32
	       " with an error, %" PRIu32 " died; %" PRIu32 " memberships; trace %016" PRIx64 "\n",
	       options->seed, result.passed ? "passed" : result.failure, result.events,
	       (double)result.virtual_ns / 1e9, result.failovers, result.n_well, result.n_errors,
	       result.n_dead, result.n_memberships, result.hash);
	return result.passed ? 0 : 1;
}

static int run_one(struct options *options)
{
	static struct sim_world world;
	struct sim_result result;

	make_world(options, options->seed, &world);
	sim_run(&world, &result);
	printf("seed %" PRIu64 ": %s\n", options->seed, result.passed ? "passed" : result.failure);
	print_world(&world);
	printf("  %" PRIu64 " events, %.6f ms of virtual time, %" PRIu64
	       " resumes, trace %016" PRIx64 "\n",
	       result.events, (double)result.virtual_ns / 1e6, result.resumes, result.hash);
	for (int i = 0; i < SML_VERDICTS; i++)
		if (result.verdicts[i])
			printf("  %-16s %10" PRIu64 "   %s\n",
			       sml_verdict_name((enum sml_verdict)i), result.verdicts[i],
			       sml_verdict_meaning((enum sml_verdict)i));
	if (!result.passed && options->minimize)
		minimize(options);
	return result.passed ? 0 : 1;
}

/* ---- many seeds ---- */

static void run_seed(const struct options *options, uint64_t seed, struct sim_result *result)
{
	static struct sim_world world;
	struct sim_control_result control;

	if (!options->control) {
		make_world(options, seed, &world);
		sim_run(&world, result);
		return;
	}
	sim_control_run(seed, kind_of(options), false, &control);
	*result = (struct sim_result){.passed = control.passed,
				      .events = control.events,
				      .resumes = control.failovers,
				      .hash = control.hash};
	snprintf(result->failure, sizeof(result->failure), "%.239s", control.failure);
}

static void run_job(const struct options *options, unsigned job, int fd)
{
	struct sim_result result;
	struct tally tally = {0};

	for (uint64_t i = job; i < options->n_seeds; i += options->jobs) {
		uint64_t seed = options->seed + i;

		run_seed(options, seed, &result);
		tally.seeds++;
		tally.events += result.events;
		tally.resumes += result.resumes;
		/* Order must not matter: jobs end in any order. */
		tally.hash += result.hash * (2 * seed + 1);
		for (int v = 0; v < SML_VERDICTS; v++)
			tally.verdicts[v] += result.verdicts[v];
		if (!result.passed) {
			tally.first_failed = tally.failed++ ? tally.first_failed : seed;
			printf("\nseed %" PRIu64 " failed: %s\n  ", seed, result.failure);
			print_command(options, seed);
			fflush(stdout);
		}
		if (tally.seeds % 64 == 0 || i + options->jobs >= options->n_seeds) {
			if (write(fd, &tally, sizeof(tally)) != (ssize_t)sizeof(tally))
				_exit(BROKEN);
			tally = (struct tally){0};
		}
	}
	_exit(0);
}

static void add(struct tally *sum, const struct tally *part)
{
	sum->seeds += part->seeds;
	sum->failed += part->failed;
	sum->events += part->events;
	sum->resumes += part->resumes;
	sum->hash += part->hash;
	for (int v = 0; v < SML_VERDICTS; v++)
		sum->verdicts[v] += part->verdicts[v];
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void watch(const struct options *options, int fd, struct tally *sum)
{
	bool tty = isatty(STDOUT_FILENO);
	/*
	 * If stderr is not a terminal, print a line now and then, because a run may take an hour.
	 */
	double begin = seconds(), shown = tty ? 0 : begin, every = tty ? 0.2 : 30;
	struct tally part;

	while (read(fd, &part, sizeof(part)) == (ssize_t)sizeof(part)) {
		add(sum, &part);
		if (options->quiet || seconds() - shown < every)
			continue;
		shown = seconds();
		printf("%s%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64
		       " failed, %.0f seeds a minute%s",
		       tty ? "\r" : "", sum->seeds, options->n_seeds, sum->failed,
		       60.0 * (double)sum->seeds / (shown - begin + 1e-9), tty ? " " : "\n");
		fflush(stdout);
	}
	printf("%s%" PRIu64 " seeds, %" PRIu64 " failed, %" PRIu64 " events, %" PRIu64
	       " resumes, %.1f s, traces %016" PRIx64 "\n",
	       tty && !options->quiet ? "\r" : "", sum->seeds, sum->failed, sum->events,
	       sum->resumes, seconds() - begin, sum->hash);
}

static int run_many(const struct options *options)
{
	struct tally sum = {0};
	int fds[2], status, rc = 0;

	if (pipe(fds) < 0) {
		fprintf(stderr, "sim: cannot open a pipe for --jobs: %s\n", strerror(errno));
		return BROKEN;
	}
	fflush(stdout);
	for (unsigned job = 0; job < options->jobs; job++) {
		pid_t pid = fork();

		if (pid == 0) {
			close(fds[0]);
			run_job(options, job, fds[1]);
		} else if (pid < 0) {
			fprintf(stderr, "sim: cannot start a process for --jobs: %s\n",
				strerror(errno));
			rc = BROKEN;
		}
	}
	close(fds[1]);
	watch(options, fds[0], &sum);
	close(fds[0]);
	while (wait(&status) > 0)
		if (status != 0)
			rc = BROKEN;
	if (sum.seeds != options->n_seeds) {
		fprintf(stderr,
			"sim: only %" PRIu64 " of %" PRIu64
			" seeds were run, because a process of --jobs died\n",
			sum.seeds, options->n_seeds);
		rc = BROKEN;
	}
	return rc ? rc : sum.failed != 0;
}

/* ---- the command line ---- */

enum {
	OPTION_LARGE = 256,
	OPTION_TREES,
	OPTION_CONTROL,
	OPTION_MINIMIZE,
	OPTION_SET,
	OPTION_SEEDS,
	OPTION_ELASTIC,
	OPTION_ALLREDUCE,
	OPTION_WIRE,
	OPTION_FROM
};

static const struct argp_option option_list[] = {
	{"seed", 's', "S", 0, "Run only this seed and show its world", 0},
	{"seeds", OPTION_SEEDS, "N", 0, "Run N seeds (1000)", 0},
	{"from", OPTION_FROM, "S", 0, "The first seed (1)", 0},
	{"jobs", 'j', "N", 0, "Number of processes (the number of cores)", 0},
	{"control", OPTION_CONTROL, NULL, 0,
	 "Simulate the control plane: joins, failovers, deaths and leaves; with --seed, every "
	 "event",
	 0},
	{"elastic", OPTION_ELASTIC, NULL, 0,
	 "As --control, with a job whose members change: processes die, freeze, wake up and come; "
	 "in some worlds, there are trees, or processes share memory",
	 0},
	{"large", OPTION_LARGE, NULL, 0,
	 "Use worlds of up to 64 ranks and 256 slots; with --control, trees with 65 to 4,096 ranks",
	 0},
	{"trees", OPTION_TREES, NULL, 0,
	 "Use worlds with trees of switches; switches of every level die; with --large, some "
	 "worlds have 4,096 ranks",
	 0},
	{"allreduce", OPTION_ALLREDUCE, "COUNT", 0,
	 "Instead of a seed's world: one all-reduce of COUNT floats on 8 ranks and links of "
	 "100 Mbit/s, without faults; --set changes its numbers",
	 0},
	{"wire", OPTION_WIRE, "WIDTH", 0,
	 "With --allreduce: the wire, int32, int16 or int8 (int32)", 0},
	{"minimize", OPTION_MINIMIZE, NULL, 0, "With --seed: reduce a world that fails", 0},
	{"set", OPTION_SET, "NAME=N", 0, "Change one number of the seed's world", 0},
	{"quiet", 'q', NULL, 0, "Do not print progress", 0},
	{0},
};

static uint64_t number(struct argp_state *state, const char *text)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || *end || end == text || *text == '-')
		argp_error(state, "'%s' is not a whole number", text);
	return value;
}

static void add_setting(struct argp_state *state, struct options *options, const char *text)
{
	struct setting *setting = &options->settings[options->n_settings];
	static struct sim_world world;
	const char *equals = strchr(text, '=');

	if (equals == NULL || (size_t)(equals - text) >= sizeof(setting->name) ||
	    options->n_settings == MAX_SETTINGS) {
		argp_error(state, "--set takes NAME=NUMBER, not '%s'", text);
		return;
	}
	snprintf(setting->name, sizeof(setting->name), "%.*s", (int)(equals - text), text);
	setting->value = (uint32_t)number(state, equals + 1);
	if (!sim_world_set(&world, setting->name, 0))
		argp_error(state, "a world has no number named '%s'; --seed 1 lists all numbers",
			   setting->name);
	options->n_settings++;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 's':
		options->one = true;
		options->seed = number(state, text);
		break;
	case OPTION_SEEDS:
		options->n_seeds = number(state, text);
		break;
	case OPTION_ALLREDUCE:
		options->plain = options->one = true;
		options->count = (uint32_t)number(state, text);
		if (options->count < 1 || options->count > MAX_COUNT)
			argp_error(state, "--allreduce must be 1 to %u floats", MAX_COUNT);
		break;
	case OPTION_WIRE:
		if (strcmp(text, "int32") != 0 && strcmp(text, "int16") != 0 &&
		    strcmp(text, "int8") != 0)
			argp_error(state, "--wire is int32, int16 or int8, not '%s'", text);
		options->wire = strcmp(text, "int8") == 0    ? SML_WIRE_INT8
				: strcmp(text, "int16") == 0 ? SML_WIRE_INT16
							     : SML_WIRE_INT32;
		break;
	case OPTION_FROM:
		options->seed = number(state, text);
		break;
	case 'j':
		options->jobs = (unsigned)number(state, text);
		if (options->jobs < 1 || options->jobs > MAX_JOBS)
			argp_error(state, "--jobs must be 1 to %d", MAX_JOBS);
		break;
	case 'q':
		options->quiet = true;
		break;
	case OPTION_CONTROL:
		options->control = true;
		break;
	case OPTION_ELASTIC:
		options->control = options->elastic = true;
		break;
	case OPTION_LARGE:
		options->large = true;
		break;
	case OPTION_TREES:
		options->trees = true;
		break;
	case OPTION_MINIMIZE:
		options->minimize = true;
		break;
	case OPTION_SET:
		add_setting(state, options, text);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_list,
		.parser = parse_option,
		.doc = "Run the protocol in a simulated world: the same code as in "
		       "production under a virtual clock and a network that loses, "
		       "duplicates, reorders and delays packets, with ranks that pause or "
		       "die, and switches that die and come back. Every number and every "
		       "event of a world comes from its seed, so a seed that fails once "
		       "always fails.\v"
		       "Exit status: 0 all seeds passed, 1 a seed failed, 2 an option is "
		       "not valid, 3 the simulator itself could not run.",
	};
	static struct options options;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	options = (struct options){.seed = 1, .n_seeds = 1000, .wire = SML_WIRE_INT32};
	options.jobs = cores < 1 ? 1 : cores > MAX_JOBS ? MAX_JOBS : (unsigned)cores;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	if (options.one && options.control)
		return run_one_control(&options);
	return options.one ? run_one(&options) : run_many(&options);
}
