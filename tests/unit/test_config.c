/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: the environment's values, their precedence, and the errors for wrong values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/settings/settings.h"
#include "lib/transport/interface.h"
#include "support/environment.h"

#define MAX_VARIABLES 6

struct variable {
	const char *name, *value;
};

static void set_environment(const struct variable *variables)
{
	for (size_t i = 0; i < ENVIRONMENT_NAMES; i++)
		unsetenv(environment_names[i]);
	for (size_t i = 0; i < MAX_VARIABLES && variables[i].name; i++)
		setenv(variables[i].name, variables[i].value, 1);
}

static void an_empty_environment_gives_the_documented_defaults(void **state)
{
	const struct variable none[MAX_VARIABLES] = {{0}};
	struct sml_config config;

	(void)state;
	set_environment(none);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.size, sizeof(config));
	assert_null(config.switch_address);
	assert_string_equal(config.job, "default");
	assert_int_equal(config.rank, 0);
	assert_int_equal(config.world_size, 1);
	assert_string_equal(config.master_address, "127.0.0.1");
	assert_int_equal(config.master_port, 28500);
	assert_int_equal(config.timeout_ms, 300000);
	assert_int_equal(config.heartbeat_ms, 5000);
	assert_int_equal(config.wire, SML_WIRE_INT32);
	assert_int_equal(config.slots, 0);
	assert_int_equal(config.threads, 0);
	assert_int_equal(config.mtu, 0);
	assert_null(config.interface);
	assert_int_equal(config.spin, 0);
	assert_null(config.faults);
}

/* The rank, the size of the world, the master, and the job. */
static const struct {
	const char *what;
	struct variable variables[MAX_VARIABLES];
	int rank, world_size;
	const char *master_address;
	int master_port;
	const char *job;
} launchers[] = {
	{"torchrun",
	 {{"RANK", "3"},
	  {"WORLD_SIZE", "8"},
	  {"MASTER_ADDR", "gpu1"},
	  {"MASTER_PORT", "29500"},
	  {"TORCHELASTIC_RUN_ID", "run7"}},
	 3,
	 8,
	 "gpu1",
	 29501,
	 "run7@gpu1:29500"},
	{"Open MPI",
	 {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
	 1,
	 2,
	 "127.0.0.1",
	 28500,
	 "default"},
	{"MPICH", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, 0, 2, "127.0.0.1", 28500, "default"},
	{"Slurm, hosts in brackets",
	 {{"SLURM_PROCID", "5"},
	  {"SLURM_NTASKS", "6"},
	  {"SLURM_NODELIST", "node[07-09,12],gpu1"},
	  {"SLURM_JOB_ID", "4711"},
	  {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}},
	 5,
	 6,
	 "node07",
	 28500,
	 "4711"},
	{"a step of a Slurm job",
	 {{"SLURM_PROCID", "1"},
	  {"SLURM_NTASKS", "2"},
	  {"SLURM_JOB_ID", "4711"},
	  {"SLURM_STEP_ID", "3"}},
	 1,
	 2,
	 "127.0.0.1",
	 28500,
	 "4711.3"},
	{"ranks by hand",
	 {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "gpu1"}, {"MASTER_PORT", "4000"}},
	 1,
	 2,
	 "gpu1",
	 4001,
	 "run@gpu1:4000"},
	{"a run of Open MPI inside a Slurm job",
	 {{"OMPI_COMM_WORLD_RANK", "1"},
	  {"OMPI_COMM_WORLD_SIZE", "2"},
	  {"PMIX_NAMESPACE", "97255425"},
	  {"OMPI_MCA_orte_precondition_transports", "993f211b47652f2a-7d05b6ce9c0738e6"},
	  {"SLURM_JOB_ID", "4711"},
	  {"SLURM_STEP_ID", "0"}},
	 1,
	 2,
	 "127.0.0.1",
	 28500,
	 "mpirun-97255425-993f211b47652f2a"},
	{"an Open MPI without PMIx",
	 {{"OMPI_COMM_WORLD_RANK", "1"},
	  {"OMPI_COMM_WORLD_SIZE", "2"},
	  {"OMPI_MCA_ess_base_jobid", "97255425"}},
	 1,
	 2,
	 "127.0.0.1",
	 28500,
	 "mpirun-97255425"},
	{"Slurm, plain hosts",
	 {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", "a,b"}},
	 1,
	 2,
	 "a",
	 28500,
	 "default"},
	{"Slurm, brackets in the middle",
	 {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", "r[1-2]-ib,b"}},
	 1,
	 2,
	 "r1-ib",
	 28500,
	 "default"},
	{"Slurm, the launching node alone",
	 {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}},
	 1,
	 2,
	 "10.0.0.9",
	 28500,
	 "default"},
	{"Open MPI inside Slurm",
	 {{"OMPI_COMM_WORLD_RANK", "1"},
	  {"OMPI_COMM_WORLD_SIZE", "2"},
	  {"SLURM_PROCID", "0"},
	  {"SLURM_NTASKS", "9"}},
	 1,
	 2,
	 "127.0.0.1",
	 28500,
	 "default"},
	{"half a launcher is none",
	 {{"RANK", "4"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
	 1,
	 2,
	 "127.0.0.1",
	 28500,
	 "default"},
	{"ours are stronger",
	 {{"RANK", "3"},
	  {"WORLD_SIZE", "8"},
	  {"SWITCHML_RANK", "1"},
	  {"SWITCHML_WORLD_SIZE", "2"},
	  {"SWITCHML_MASTER_PORT", "4000"},
	  {"MASTER_PORT", "29500"}},
	 1,
	 2,
	 "127.0.0.1",
	 4000,
	 "default"},
	{"ours override even what is wrong",
	 {{"RANK", "x"},
	  {"WORLD_SIZE", "y"},
	  {"SWITCHML_RANK", "1"},
	  {"SWITCHML_WORLD_SIZE", "2"},
	  {"SWITCHML_MASTER_PORT", "4000"},
	  {"MASTER_PORT", "z"}},
	 1,
	 2,
	 "127.0.0.1",
	 4000,
	 "default"},
	{"an empty variable is an unset one",
	 {{"SWITCHML_RANK", ""}, {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"SWITCHML_JOB", ""}},
	 1,
	 2,
	 "127.0.0.1",
	 28500,
	 "default"},
};

static void launchers_are_understood(void **state)
{
	struct sml_config config;

	(void)state;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		set_environment(launchers[i].variables);
		print_message("%s\n", launchers[i].what);
		assert_int_equal(sml_config_init(&config), 0);
		assert_int_equal(config.rank, launchers[i].rank);
		assert_int_equal(config.world_size, launchers[i].world_size);
		assert_string_equal(config.master_address, launchers[i].master_address);
		assert_int_equal(config.master_port, launchers[i].master_port);
		assert_string_equal(config.job, launchers[i].job);
	}
}

static const char *name_with(const struct variable *variables)
{
	static struct sml_config config;

	set_environment(variables);
	assert_int_equal(sml_config_init(&config), 0);
	return config.job;
}

/* Two hosts may each have a run at 127.0.0.1:29500. */
static void a_master_on_the_loopback_is_named_with_its_host(void **state)
{
	struct variable variables[MAX_VARIABLES] = {{"RANK", "0"},
						    {"WORLD_SIZE", "2"},
						    {"TORCHELASTIC_RUN_ID", "none"},
						    {"MASTER_ADDR", "localhost"},
						    {"MASTER_PORT", "29500"}};
	char first[SML_MAX_JOB_NAME + 1];

	(void)state;
	snprintf(first, sizeof(first), "%s", name_with(variables));
	assert_memory_equal(first, "none@localhost:29500-", 21);
	assert_int_equal(strlen(first), 29);
	variables[0].value = "1";
	assert_string_equal(name_with(variables), first);
	variables[4].value = "29501";
	assert_string_not_equal(name_with(variables), first);
}

/* A long run id is still a valid name, and its end still counts. */
static void a_long_name_of_a_run_is_shortened(void **state)
{
	char id[201] = "";
	struct variable variables[MAX_VARIABLES] = {
		{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RUN_ID", id}};
	char first[SML_MAX_JOB_NAME + 1];

	(void)state;
	memset(id, 'x', sizeof(id) - 1);
	snprintf(first, sizeof(first), "%s", name_with(variables));
	assert_int_equal(strlen(first), strlen(name_with(variables)));
	assert_true(strlen(first) <= SML_MAX_JOB_NAME);
	id[199] = 'y';
	assert_string_not_equal(name_with(variables), first);
}

static void every_variable_of_ours_is_read(void **state)
{
	const struct variable first[MAX_VARIABLES] = {{"SWITCHML_SWITCH", "tor1:28500,tor2"},
						      {"SWITCHML_JOB", "j"},
						      {"SWITCHML_TIMEOUT", "1.5"},
						      {"SWITCHML_HEARTBEAT", "0.25"},
						      {"SWITCHML_WIRE", "int16"},
						      {"SWITCHML_SLOTS", "64"}};
	const struct variable second[MAX_VARIABLES] = {
		{"SWITCHML_THREADS", "3"},     {"SWITCHML_MTU", "9000"},
		{"SWITCHML_DEBUG", "trace"},   {"SWITCHML_SPIN", "1"},
		{"SWITCHML_FAULTS", "drop=5"}, {"SWITCHML_SOCKET_IFNAME", "^lo"}};
	const struct variable third[MAX_VARIABLES] = {{"SWITCHML_TRANSPORT", "afxdp"}};
	struct sml_config config;

	(void)state;
	set_environment(first);
	assert_int_equal(sml_config_init(&config), 0);
	assert_string_equal(config.switch_address, "tor1:28500,tor2");
	assert_string_equal(config.job, "j");
	assert_int_equal(config.timeout_ms, 1500);
	assert_int_equal(config.heartbeat_ms, 250);
	assert_int_equal(config.wire, SML_WIRE_INT16);
	assert_int_equal(config.slots, 64);
	set_environment(second);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.threads, 3);
	assert_int_equal(config.mtu, 9000);
	assert_int_equal(config.debug, SML_LOG_TRACE);
	assert_int_equal(config.spin, 1);
	assert_string_equal(config.faults, "drop=5");
	assert_string_equal(config.interface, "^lo");
	assert_int_equal(config.transport, SML_TRANSPORT_UDP);
	set_environment(third);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.transport, SML_TRANSPORT_AFXDP);
}

static const struct variable wrong[] = {
	{"SWITCHML_RANK", "-1"},
	{"SWITCHML_RANK", "4096"},
	{"SWITCHML_RANK", "1x"},
	{"SWITCHML_RANK", " 1"},
	{"SWITCHML_WORLD_SIZE", "0"},
	{"SWITCHML_WORLD_SIZE", "4097"},
	{"SWITCHML_TIMEOUT", "1e3"},
	{"SWITCHML_TIMEOUT", "0"},
	{"SWITCHML_TIMEOUT", "1."},
	{"SWITCHML_TIMEOUT", "1,5"},
	{"SWITCHML_HEARTBEAT", "61"},
	{"SWITCHML_WIRE", "INT32"},
	{"SWITCHML_WIRE", "fp8"},
	{"SWITCHML_SLOTS", "0"},
	{"SWITCHML_SLOTS", "5000"},
	{"SWITCHML_THREADS", "17"},
	{"SWITCHML_MTU", "70000"},
	{"SWITCHML_DEBUG", "2"},
	{"SWITCHML_SPIN", "yes"},
	{"SWITCHML_MASTER_PORT", "0"},
	{"MASTER_PORT", "65535"},
	{"SWITCHML_SLOTS", "99999999999999999999999"},
	{"SWITCHML_TRANSPORT", "tcp"},
	{"SWITCHML_PORTS", "30000"},
	{"SWITCHML_PORTS", "30001-30000"},
	{"SWITCHML_PORTS", "0-30000"},
	{"SWITCHML_PORTS", "1-65536"},
	{"SWITCHML_PORTS", "30000-"},
	{"SWITCHML_PORTS", "-30000"},
	{"SWITCHML_PORTS", "30000:30007"},
	{"SWITCHML_PORTS", "30000-30007,40000-40007"},
};

static void a_wrong_value_is_told_with_its_name_and_what_is_allowed(void **state)
{
	struct variable one[MAX_VARIABLES] = {{0}};
	struct sml_config config;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		one[0] = wrong[i];
		set_environment(one);
		print_message("%s=%s\n", wrong[i].name, wrong[i].value);
		assert_int_equal(sml_config_init(&config), SML_ERROR_CONFIG);
		assert_non_null(strstr(sml_error_text(NULL), wrong[i].name));
		assert_non_null(strstr(sml_error_text(NULL), wrong[i].value));
		assert_non_null(strstr(sml_error_text(NULL), "must be"));
	}
}

static void open_checks_the_struct_too(void **state)
{
	const struct variable none[MAX_VARIABLES] = {{0}};
	struct sml_context *context;
	struct sml_config config;

	(void)state;
	set_environment(none);
	sml_config_init(&config);
	config.rank = 2;
	config.world_size = 2;
	assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
	assert_null(context);
	assert_non_null(strstr(sml_error_text(NULL), "rank 2 of a job of 2"));
	config.rank = 0;
	config.heartbeat_ms = 5;
	assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
	assert_non_null(strstr(sml_error_text(NULL), "heartbeat_ms is 5"));
	config.size = 0;
	assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
	assert_non_null(strstr(sml_error_text(NULL), "sml_config_init"));
}

/* A program of one rank would be the wrong guess. */
static void half_of_a_pair_is_refused_unless_the_program_says_more(void **state)
{
	static const struct {
		struct variable variables[MAX_VARIABLES];
		const char *text;
	} halves[] = {
		{{{"RANK", "2"}}, "RANK=2 is set, but WORLD_SIZE is not"},
		{{{"RANK", "0"}}, "RANK=0 is set, but WORLD_SIZE is not"},
		{{{"WORLD_SIZE", "4"}}, "WORLD_SIZE=4 is set, but RANK is not"},
		{{{"SWITCHML_RANK", "1"}},
		 "SWITCHML_RANK=1 is set, but SWITCHML_WORLD_SIZE is not"},
		{{{"SWITCHML_WORLD_SIZE", "2"}},
		 "SWITCHML_WORLD_SIZE=2 is set, but SWITCHML_RANK is not"},
	};
	const struct variable mixed[MAX_VARIABLES] = {{"SWITCHML_RANK", "1"}, {"WORLD_SIZE", "2"}};
	const struct variable alone[MAX_VARIABLES] = {{"WORLD_SIZE", "1"}};
	struct sml_context *context;
	struct sml_config config;

	(void)state;
	for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
		set_environment(halves[i].variables);
		assert_int_equal(sml_config_init(&config), 0);
		assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
		assert_non_null(strstr(sml_error_text(NULL), halves[i].text));
		assert_int_equal(sml_open(&context, NULL), SML_ERROR_CONFIG);
		config.rank = 0;
		config.world_size = 1;
		assert_int_equal(sml_open(&context, &config), 0);
		assert_int_equal(sml_close(context), 0);
	}
	set_environment(mixed);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.rank, 1);
	assert_int_equal(config.world_size, 2);
	set_environment(alone);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.rank, 0);
}

/* Rank 0's control port is one of the range, and all ranks know which. */
static void ports_bound_the_control_port_too(void **state)
{
	const struct variable alone[MAX_VARIABLES] = {{"SWITCHML_PORTS", "30000-30007"}};
	const struct variable elsewhere[MAX_VARIABLES] = {{"SWITCHML_PORTS", "30000-30007"},
							  {"MASTER_PORT", "29500"}};
	const struct variable among_them[MAX_VARIABLES] = {{"SWITCHML_PORTS", "30000-30007"},
							   {"MASTER_PORT", "30004"}};
	const struct variable asked[MAX_VARIABLES] = {{"SWITCHML_PORTS", "30000-30007"},
						      {"SWITCHML_MASTER_PORT", "28500"},
						      {"SWITCHML_RANK", "0"},
						      {"SWITCHML_WORLD_SIZE", "2"}};
	struct sml_context *context;
	struct sml_config config;

	(void)state;
	set_environment(alone);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.master_port, 30000);
	set_environment(elsewhere);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.master_port, 30000);
	set_environment(among_them);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.master_port, 30005);
	set_environment(asked);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.master_port, 28500);
	assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
	assert_non_null(
		strstr(sml_error_text(NULL), "28500, is not one of SWITCHML_PORTS=30000-30007"));
	config.ports = "7";
	assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
	assert_non_null(strstr(sml_error_text(NULL), "SWITCHML_PORTS=\"7\" is not allowed"));
}

/* A program that was started on many ranks may open a job with some of them. */
static void a_launcher_may_have_more_ranks_than_a_job(void **state)
{
	const struct variable many[MAX_VARIABLES] = {{"OMPI_COMM_WORLD_RANK", "4999"},
						     {"OMPI_COMM_WORLD_SIZE", "5000"}};
	struct sml_context *context;
	struct sml_config config;

	(void)state;
	set_environment(many);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.rank, 4999);
	assert_int_equal(sml_open(&context, NULL), SML_ERROR_CONFIG);
	assert_non_null(strstr(sml_error_text(NULL), "world_size is 5000: it must be 1 to 4096"));
	/* One of many that needs a switch. */
	config.rank = 99;
	config.world_size = 100;
	assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
	assert_non_null(
		strstr(sml_error_text(NULL), "without a switch has at most 64 ranks, not 100"));
	config.switch_address = "embedded";
	assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
	assert_non_null(
		strstr(sml_error_text(NULL), "without a switch has at most 64 ranks, not 100"));
	config.switch_address = NULL;
	config.rank = 0;
	config.world_size = 1;
	assert_int_equal(sml_open(&context, &config), 0);
	assert_int_equal(sml_close(context), 0);
}

static void faults_are_parsed_strictly(void **state)
{
	static const char *const bad[] = {"drop",   "drop=",   "drop=1000001", "drop=1,",
					  "lose=1", "drop=1 ", ",drop=1",      "drop=-1"};
	struct sml_faults faults;

	(void)state;
	assert_int_equal(sml_faults_parse(&faults, "drop=10000,duplicate=20,reorder=3,seed=7"), 0);
	assert_int_equal(faults.drop, 10000);
	assert_int_equal(faults.duplicate, 20);
	assert_int_equal(faults.reorder, 3);
	assert_int_equal(faults.seed, 7);
	assert_false(faults.no_tickets || faults.no_fast_retransmit);
	assert_int_equal(sml_faults_parse(&faults, "tickets=0,fastretransmit=0"), 0);
	assert_true(faults.no_tickets && faults.no_fast_retransmit);
	assert_int_equal(sml_faults_parse(&faults, "tickets=1,fastretransmit=2"), SML_ERROR_CONFIG);
	assert_int_equal(sml_faults_parse(&faults, ""), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(sml_faults_parse(&faults, bad[i]), SML_ERROR_CONFIG);
}

static void interface_filters_take_names_prefixes_and_exclusions(void **state)
{
	(void)state;
	assert_true(sml_interface_matches("eth0", "eth0"));
	assert_true(sml_interface_matches("eth", "eth1"));
	assert_true(sml_interface_matches("ib,eth", "eth1"));
	assert_false(sml_interface_matches("ib,eth", "lo"));
	assert_false(sml_interface_matches("^lo,docker", "docker0"));
	assert_true(sml_interface_matches("^lo,docker", "eth0"));
}

static void lanes_follow_from_the_mtu(void **state)
{
	(void)state;
	assert_int_equal(sml_lanes_of_mtu(1500, AF_INET), 352);
	assert_int_equal(sml_lanes_of_mtu(1500, AF_INET6), 352);
	assert_int_equal(sml_lanes_of_mtu(1475, AF_INET), 256);
	assert_int_equal(sml_lanes_of_mtu(9000, AF_INET6), SML_MAX_LANES);
	assert_int_equal(sml_lanes_of_mtu(65536, AF_INET), SML_MAX_LANES);
	assert_int_equal(sml_lanes_of_mtu(195, AF_INET), 0);
}

static void every_error_has_a_text(void **state)
{
	(void)state;
	assert_string_equal(sml_strerror(0), "success");
	assert_string_equal(sml_strerror(SML_ERROR_MISMATCH), "ranks disagree");
	assert_string_equal(sml_strerror(-12), "Cannot allocate memory");
	assert_string_equal(sml_strerror(-4000), "unknown error");
	assert_string_equal(sml_strerror(7), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_environment_gives_the_documented_defaults),
		cmocka_unit_test(launchers_are_understood),
		cmocka_unit_test(a_master_on_the_loopback_is_named_with_its_host),
		cmocka_unit_test(a_long_name_of_a_run_is_shortened),
		cmocka_unit_test(every_variable_of_ours_is_read),
		cmocka_unit_test(a_wrong_value_is_told_with_its_name_and_what_is_allowed),
		cmocka_unit_test(open_checks_the_struct_too),
		cmocka_unit_test(half_of_a_pair_is_refused_unless_the_program_says_more),
		cmocka_unit_test(ports_bound_the_control_port_too),
		cmocka_unit_test(a_launcher_may_have_more_ranks_than_a_job),
		cmocka_unit_test(faults_are_parsed_strictly),
		cmocka_unit_test(interface_filters_take_names_prefixes_and_exclusions),
		cmocka_unit_test(lanes_follow_from_the_mtu),
		cmocka_unit_test(every_error_has_a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
