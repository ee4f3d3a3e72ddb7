/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `switchml bench`: nccl-tests' flags, and some of ours. */
#include <argp.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench/bench.h"
#include "cmd/shared/command.h"
#include "core/names.h"

#define DEFAULT_MAX (64u << 20)
enum {
	OPTION_WIRE = 256,
	OPTION_JSON,
	OPTION_LOCAL,
	OPTION_SWITCH,
	OPTION_JOB,
	OPTION_SEED,
	OPTION_SECONDS,
	OPTION_PAUSE,
	OPTION_DROP,
	OPTION_DUPLICATE,
	OPTION_REORDER,
	OPTION_COLLECTIVE,
	OPTION_NCCL_TESTS,
	OPTION_PERCENTILES
};

static const struct argp_option known_options[] = {
	{"minbytes", 'b', "BYTES", 0, "smallest size (4); K, M and G are powers of 1024", 1},
	{"maxbytes", 'e', "BYTES", 0, "largest size (64M)", 1},
	{"stepfactor", 'f', "FACTOR", 0, "each size is the previous one times this (4)", 1},
	{"stepbytes", 'i', "BYTES", 0, "each size is the previous one plus this", 1},
	{"collective", OPTION_COLLECTIVE, "NAME", 0,
	 "all_reduce, all_gather, reduce_scatter, broadcast, reduce or barrier (all_reduce)", 2},
	{"root", 'r', "RANK", 0, "the root of broadcasts and reduces (0)", 2},
	{"datatype", 'd', "TYPE", 0,
	 "float, double, half, bfloat16, int64, int32, int16, int8, uint8, bool or all (float)", 2},
	{"op", 'o', "OP", 0, "sum, avg, max, min or all (sum)", 2},
	{"wire", OPTION_WIRE, "WIDTH", 0,
	 "wire width of floats: int32, int16, int8, or exact (SWITCHML_WIRE; "
	 "otherwise the library's default)",
	 2},
	{"iters", 'n', "N", 0, "number of measured calls (20)", 3},
	{"warmup-iters", 'w', "N", 0, "number of calls before the measured ones (5)", 3},
	{"warmup_iters", 'w', "N", OPTION_ALIAS, NULL, 3}, /* nccl-tests' spelling */
	{"check", 'c', "N", 0, "number of calls whose results are checked (1)", 3},
	{"seconds", OPTION_SECONDS, "N", 0,
	 "repeat the calls of each row for N seconds, or until SIGINT or SIGTERM to rank 0", 3},
	{"pause", OPTION_PAUSE, "MS", 0,
	 "with --seconds, pause for MS milliseconds after each repetition", 3},
	{"seed", OPTION_SEED, "N", 0, "seed of the random inputs (1)", 3},
	{"percentiles", OPTION_PERCENTILES, NULL, 0,
	 "also print percentiles of the times of all ranks' calls", 4},
	{"nccl-tests", OPTION_NCCL_TESTS, NULL, 0, "print the table of nccl-tests", 4},
	{"json", OPTION_JSON, "FILE", 0,
	 "also write the results to this file; -: to standard output", 4},
	{"local-workers", OPTION_LOCAL, "N", 0, "start N workers on this machine", 5},
	{"switch", OPTION_SWITCH, "HOST:PORT,...", 0, "use running switches (SWITCHML_SWITCH)", 5},
	{"job", OPTION_JOB, "NAME", 0, "the job's name on the switch", 5},
	{"drop", OPTION_DROP, "PERCENT", 0,
	 "each worker loses this share of its packets (1% or 0.5)", 6},
	{"duplicate", OPTION_DUPLICATE, "PERCENT", 0, "... duplicates this share", 6},
	{"reorder", OPTION_REORDER, "PERCENT", 0, "... delays this share", 6},
	{0},
};

/* "64M" and the like. */
static uint64_t parse_bytes(struct argp_state *state, const char *text)
{
	static const char suffixes[] = "KMG";
	char *end;
	double bytes = strtod(text, &end);
	const char *suffix;

	if (end != text && *end && (suffix = strchr(suffixes, *end & ~0x20))) {
		bytes *= (double)(1ull << (10 * (suffix - suffixes + 1)));
		end++;
	}
	if (end == text || *end || !(bytes >= 0 && bytes <= 0x1p40))
		argp_error(
			state,
			"'%s' is not a number of bytes up to 1024G: write, for example, 64K or 1M",
			text);
	return (uint64_t)bytes;
}

static const char *name_of(int key)
{
	const struct argp_option *option = known_options;

	while (option->key != key)
		option++;
	return option->name;
}

/* key: of an option in known_options. */
static unsigned parse_number(int key, struct argp_state *state, const char *text,
			     unsigned long most)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (end == text || *end || *text == '-' || number > most)
		argp_error(state, "--%s=%s: it must be a whole number from 0 to %lu", name_of(key),
			   text, most);
	return (unsigned)number;
}

/* "1%" or "1" to 10000 of a million. */
static unsigned parse_percent(struct argp_state *state, const char *text)
{
	char *end;
	double percent = strtod(text, &end);

	if (end != text && *end == '%')
		end++;
	if (end == text || *end || !(percent >= 0 && percent <= 100))
		argp_error(state,
			   "'%s' is not a percentage from 0 to 100: write, for example, 1%% or 0.5",
			   text);
	return (unsigned)lround(percent * 10000);
}

static const char *type_name(size_t i)
{
	return i < SML_TYPES ? bench_type_name((enum sml_type)i) : NULL;
}

static unsigned parse_type(struct argp_state *state, const char *text)
{
	char meant[SML_MEANT_BYTES];

	for (enum sml_type type = SML_FLOAT32; type < SML_TYPES; type++) {
		if (type != SML_BYTE && !strcmp(text, bench_type_name(type)))
			return 1u << type;
	}
	if (strcmp(text, "all") != 0)
		argp_error(state, "there is no type '%s'%s; --help lists the types", text,
			   sml_meant(text, type_name, meant));
	return ((1u << SML_TYPES) - 1) & ~(1u << SML_BYTE);
}

static unsigned parse_op(struct argp_state *state, const char *text)
{
	for (enum sml_op op = SML_SUM; op <= SML_MIN; op++) {
		if (!strcmp(text, sml_op_name(op)))
			return 1u << op;
	}
	if (strcmp(text, "all") != 0)
		argp_error(state, "there is no operation '%s': write sum, avg, max, min or all",
			   text);
	return (2u << SML_MIN) - 1;
}

static const char *collective_name(size_t i)
{
	return i < BENCH_COLLECTIVES ? bench_collective_name((enum bench_collective)i) : NULL;
}

static enum bench_collective parse_collective(struct argp_state *state, const char *text)
{
	char meant[SML_MEANT_BYTES];

	for (enum bench_collective c = 0; c < BENCH_COLLECTIVES; c++)
		if (!strcmp(text, bench_collective_name(c)))
			return c;
	argp_error(state, "there is no collective '%s'%s; --help lists them", text,
		   sml_meant(text, collective_name, meant));
	return BENCH_ALL_REDUCE;
}

static enum sml_wire parse_wire(struct argp_state *state, const char *text)
{
	if (!strcmp(text, "int16"))
		return SML_WIRE_INT16;
	if (!strcmp(text, "int8"))
		return SML_WIRE_INT8;
	if (!strcmp(text, "exact"))
		return SML_WIRE_EXACT;
	if (strcmp(text, "int32") != 0)
		argp_error(state, "there is no wire '%s': write int32, int16, int8 or exact", text);
	return SML_WIRE_INT32;
}

/* Options that set one member, each in one of five ways. */
enum kind { BYTES, NUMBER, PERCENT, TEXT, FLAG };

#define MEMBER(of) offsetof(struct bench_options, of)

static const struct value {
	int key;
	enum kind kind;
	size_t member;
	unsigned least, most; /* of numbers; bytes have no such limit */
} values[] = {
	{'b', BYTES, MEMBER(min_bytes), 0, 0},
	{'e', BYTES, MEMBER(max_bytes), 0, 0},
	{'i', BYTES, MEMBER(step_bytes), 1, 0},
	{'f', NUMBER, MEMBER(factor), 2, 1u << 20},
	{'n', NUMBER, MEMBER(iterations), 1, 1000000},
	{'w', NUMBER, MEMBER(warmups), 0, 1000000},
	{'c', NUMBER, MEMBER(checks), 0, 1000000},
	{'r', NUMBER, MEMBER(root), 0, SML_MAX_WORLD_SIZE - 1},
	{OPTION_SECONDS, NUMBER, MEMBER(seconds), 0, 1000000},
	{OPTION_PAUSE, NUMBER, MEMBER(pause_ms), 0, 60000},
	{OPTION_SEED, NUMBER, MEMBER(seed), 0, UINT32_MAX},
	{OPTION_LOCAL, NUMBER, MEMBER(local_workers), 0, BENCH_MAX_LOCAL},
	{OPTION_DROP, PERCENT, MEMBER(drop), 0, 0},
	{OPTION_DUPLICATE, PERCENT, MEMBER(duplicate), 0, 0},
	{OPTION_REORDER, PERCENT, MEMBER(reorder), 0, 0},
	{OPTION_JSON, TEXT, MEMBER(json), 0, 0},
	{OPTION_SWITCH, TEXT, MEMBER(switch_address), 0, 0},
	{OPTION_JOB, TEXT, MEMBER(job), 0, 0},
	{OPTION_NCCL_TESTS, FLAG, MEMBER(nccl_tests), 0, 0},
	{OPTION_PERCENTILES, FLAG, MEMBER(percentiles), 0, 0},
};

static void take_value(const struct value *value, const char *text, struct argp_state *state)
{
	void *at = (char *)state->input + value->member;
	uint64_t number = value->least;

	switch (value->kind) {
	case BYTES:
		*(uint64_t *)at = number = parse_bytes(state, text);
		break;
	case NUMBER:
		*(unsigned *)at = parse_number(value->key, state, text, value->most);
		number = *(unsigned *)at;
		break;
	case PERCENT:
		*(unsigned *)at = parse_percent(state, text);
		break;
	case TEXT:
		*(const char **)at = text;
		break;
	case FLAG:
		*(bool *)at = true;
		break;
	}
	if (number < value->least)
		argp_error(state, "--%s must be %u or more", name_of(value->key), value->least);
}

/* All options are known: check them together, and set what was not given. */
static void finish(struct bench_options *options, const struct argp_state *state)
{
	const uint64_t most = options->default_max;

	if (options->pause_ms && !options->seconds)
		argp_error(state, "--pause is for --seconds");
	if (options->max_bytes == 0)
		options->max_bytes = options->min_bytes > most ? options->min_bytes : most;
	if (options->types == 0)
		options->types = options->default_types;
	if (options->min_bytes > options->max_bytes)
		argp_error(state, "--minbytes is larger than --maxbytes: lower the one "
				  "or raise the other");
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct bench_options *options = state->input;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (values[i].key == key) {
			take_value(&values[i], text, state);
			return 0;
		}
	switch (key) {
	case OPTION_COLLECTIVE:
		options->collective = parse_collective(state, text);
		return 0;
	case 'd':
		options->types = parse_type(state, text);
		return 0;
	case 'o':
		options->ops = parse_op(state, text);
		return 0;
	case OPTION_WIRE:
		options->wire = parse_wire(state, text);
		return 0;
	case ARGP_KEY_END:
		finish(options, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp bench_argp = {
	.options = known_options,
	.parser = parse_option,
	.doc = "Measure all-reduce or another collective, and check every result on every "
	       "rank.\v"
	       "Without --local-workers, this process is one rank of a job if a "
	       "launcher has set RANK and WORLD_SIZE (or its own variables). "
	       "Otherwise it starts two local workers. Local workers use the switch of "
	       "--switch or SWITCHML_SWITCH, if there is one; otherwise bench starts "
	       "one.\n\n"
	       "Four workers and a switch here, 1 MB to 64 MB, with 1 % of the packets "
	       "lost:\n"
	       "  switchml bench --local-workers 4 -b 1M --drop 1%\n\n"
	       "One rank on each of four hosts, through the switch on the host box:\n"
	       "  mpirun -n 4 --hostfile hosts switchml bench --switch box",
};

struct bench_options bench_defaults(void)
{
	return (struct bench_options){
		.min_bytes = 4,
		.factor = 4,
		.ops = 1u << SML_SUM,
		.iterations = 20,
		.warmups = 5,
		.checks = 1,
		.seed = 1,
		.wire = SML_WIRE_DEFAULT,
		.default_max = DEFAULT_MAX,
		.default_types = 1u << SML_FLOAT32,
		.news = -1,
	};
}
