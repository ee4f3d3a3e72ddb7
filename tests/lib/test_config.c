/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings that are right: the environment's values, launchers, and their precedence. */
#include <stdio.h>
#include <string.h>

#include "lib/settings/settings.h"
#include "support/environment.h"
#include "support/test.h"

TEST(an_empty_environment_gives_the_documented_defaults)
{
	const struct variable none[MAX_VARIABLES] = {{0}};
	struct sml_config config = SML_CONFIG_INIT;

	set_environment(none);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.size, sizeof(config));
	assert_null(config.switch_address);
	assert_string_equal(config.job, "default");
	assert_int_equal(config.rank, 0);
	assert_int_equal(config.world_size, 1);
	assert_string_equal(config.master_address, "127.0.0.1");
	assert_int_equal(config.master_port, 28500);
	assert_int_equal(config.timeout_ms, 1800000);
	assert_int_equal(config.heartbeat_ms, 5000);
	assert_int_equal(config.wire, SML_WIRE_DEFAULT);
	assert_int_equal(config.slots, 0);
	assert_int_equal(config.threads, 0);
	assert_int_equal(config.mtu, 0);
	assert_null(config.interface);
	assert_int_equal(config.spin, 0);
	assert_int_equal(config.wait_notice_ms, 5000);
	assert_int_equal(config.summary, 1);
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

TEST(launchers_are_understood)
{
	struct sml_config config = SML_CONFIG_INIT;

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
	static struct sml_config config = SML_CONFIG_INIT;

	set_environment(variables);
	assert_int_equal(sml_config_init(&config), 0);
	return config.job;
}

/* Two hosts may each have a run at 127.0.0.1:29500. */
TEST(a_master_on_the_loopback_is_named_with_its_host)
{
	struct variable variables[MAX_VARIABLES] = {{"RANK", "0"},
						    {"WORLD_SIZE", "2"},
						    {"TORCHELASTIC_RUN_ID", "none"},
						    {"MASTER_ADDR", "localhost"},
						    {"MASTER_PORT", "29500"}};
	char first[SML_MAX_JOB_NAME + 1];

	snprintf(first, sizeof(first), "%s", name_with(variables));
	assert_memory_equal(first, "none@localhost:29500-", 21);
	assert_int_equal(strlen(first), 29);
	variables[0].value = "1";
	assert_string_equal(name_with(variables), first);
	variables[4].value = "29501";
	assert_string_not_equal(name_with(variables), first);
}

/* A long run id is still a valid name, and its end still counts. */
TEST(a_long_name_of_a_run_is_shortened)
{
	char id[201] = "";
	struct variable variables[MAX_VARIABLES] = {
		{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RUN_ID", id}};
	char first[SML_MAX_JOB_NAME + 1];

	memset(id, 'x', sizeof(id) - 1);
	snprintf(first, sizeof(first), "%s", name_with(variables));
	assert_int_equal(strlen(first), strlen(name_with(variables)));
	assert_true(strlen(first) <= SML_MAX_JOB_NAME);
	id[199] = 'y';
	assert_string_not_equal(name_with(variables), first);
}

/* mpirun -n 4 on two hosts: its ranks, and what others say of rank 0. */
TEST(only_an_address_that_nobody_has_given_hides_rank_0)
{
	struct variable variables[MAX_VARIABLES] = {{"OMPI_COMM_WORLD_RANK", "1"},
						    {"OMPI_COMM_WORLD_SIZE", "4"},
						    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
	struct sml_config config = SML_CONFIG_INIT;

	set_environment(variables);
	assert_int_equal(sml_config_init(&config), 0);
	assert_true(sml_launcher_hides_rank_0(&config));
	config.master_address = "127.0.0.1";
	assert_false(sml_launcher_hides_rank_0(&config));
	variables[3] = (struct variable){"SWITCHML_MASTER_ADDR", "127.0.0.1"};
	set_environment(variables);
	assert_int_equal(sml_config_init(&config), 0);
	assert_false(sml_launcher_hides_rank_0(&config));
	/* All of mpirun's ranks are here, and the job has those of another mpirun, too. */
	variables[1].value = "2";
	variables[3] = (struct variable){0};
	set_environment(variables);
	assert_int_equal(sml_config_init(&config), 0);
	config.world_size = 4;
	assert_false(sml_launcher_hides_rank_0(&config));
}

/* As users of NCCL type them. */
TEST(words_are_taken_in_any_case)
{
	const struct variable first[MAX_VARIABLES] = {{"SWITCHML_DEBUG", "INFO"},
						      {"SWITCHML_WIRE", "Int8"},
						      {"SWITCHML_SPIN", "True"},
						      {"SWITCHML_SUMMARY", "off"}};
	const struct variable second[MAX_VARIABLES] = {{"SWITCHML_DEBUG", "WARNING"},
						       {"SWITCHML_SHARED_MEMORY", "no"},
						       {"SWITCHML_SUMMARY", "All"}};
	struct sml_config config = SML_CONFIG_INIT;

	set_environment(first);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.debug, SML_LOG_INFO);
	assert_int_equal(config.wire, SML_WIRE_INT8);
	assert_int_equal(config.spin, 1);
	assert_int_equal(config.summary, 0);
	set_environment(second);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.debug, SML_LOG_WARN);
	assert_int_equal(config.shared_memory, 0);
	assert_int_equal(config.summary, 2);
}

TEST(every_variable_of_ours_is_read)
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
	const struct variable third[MAX_VARIABLES] = {{"SWITCHML_WAIT_NOTICE", "0"},
						      {"SWITCHML_SUMMARY", "0"}};
	struct sml_config config = SML_CONFIG_INIT;

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
	set_environment(third);
	assert_int_equal(sml_config_init(&config), 0);
	assert_int_equal(config.wait_notice_ms, 0);
	assert_int_equal(config.summary, 0);
}
