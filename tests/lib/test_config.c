/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings that are right: the environment's values, launchers, and their precedence. */
#include <stdio.h>
#include <string.h>

#include "lib/settings/settings.h"
#include "support/environment.h"
#include "support/test.h"

TEST(an_empty_environment_gives_the_documented_defaults)
{
	struct sml_config config = config_of(NULL);

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

/* Rank 1 of 2 in the job "default", with rank 0 at 127.0.0.1:28500, but for what is here. */
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
	 .rank = 3,
	 .world_size = 8,
	 .master_address = "gpu1",
	 .master_port = 29501,
	 .job = "run7@gpu1:29500"},
	{"Open MPI", {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, .rank = 1},
	{"MPICH", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, .rank = 1},
	{"Slurm, hosts in brackets",
	 {{"SLURM_PROCID", "5"},
	  {"SLURM_NTASKS", "6"},
	  {"SLURM_NODELIST", "node[07-09,12],gpu1"},
	  {"SLURM_JOB_ID", "4711"},
	  {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}},
	 .rank = 5,
	 .world_size = 6,
	 .master_address = "node07",
	 .job = "4711"},
	{"a step of a Slurm job",
	 {{"SLURM_PROCID", "1"},
	  {"SLURM_NTASKS", "2"},
	  {"SLURM_JOB_ID", "4711"},
	  {"SLURM_STEP_ID", "3"}},
	 .job = "4711.3"},
	{"ranks by hand",
	 {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "gpu1"}, {"MASTER_PORT", "4000"}},
	 .master_address = "gpu1",
	 .master_port = 4001,
	 .job = "run@gpu1:4000"},
	{"a run of Open MPI inside a Slurm job",
	 {{"OMPI_COMM_WORLD_RANK", "1"},
	  {"OMPI_COMM_WORLD_SIZE", "2"},
	  {"PMIX_NAMESPACE", "97255425"},
	  {"OMPI_MCA_orte_precondition_transports", "993f211b47652f2a-7d05b6ce9c0738e6"},
	  {"SLURM_JOB_ID", "4711"},
	  {"SLURM_STEP_ID", "0"}},
	 .job = "mpirun-97255425-993f211b47652f2a"},
	{"an Open MPI without PMIx",
	 {{"OMPI_COMM_WORLD_RANK", "1"},
	  {"OMPI_COMM_WORLD_SIZE", "2"},
	  {"OMPI_MCA_ess_base_jobid", "97255425"}},
	 .job = "mpirun-97255425"},
	{"Slurm, plain hosts",
	 {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", "a,b"}},
	 .master_address = "a"},
	{"Slurm, brackets in the middle",
	 {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", "r[1-2]-ib,b"}},
	 .master_address = "r1-ib"},
	{"Slurm, the launching node alone",
	 {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}},
	 .master_address = "10.0.0.9"},
	{"Open MPI inside Slurm",
	 {{"OMPI_COMM_WORLD_RANK", "1"},
	  {"OMPI_COMM_WORLD_SIZE", "2"},
	  {"SLURM_PROCID", "0"},
	  {"SLURM_NTASKS", "9"}},
	 .rank = 1},
	{"half a launcher is none",
	 {{"RANK", "4"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
	 .rank = 1},
	{"ours are stronger",
	 {{"RANK", "3"},
	  {"WORLD_SIZE", "8"},
	  {"SWITCHML_RANK", "1"},
	  {"SWITCHML_WORLD_SIZE", "2"},
	  {"SWITCHML_MASTER_PORT", "4000"},
	  {"MASTER_PORT", "29500"}},
	 .master_port = 4000},
	{"ours override even what is wrong",
	 {{"RANK", "x"},
	  {"WORLD_SIZE", "y"},
	  {"SWITCHML_RANK", "1"},
	  {"SWITCHML_WORLD_SIZE", "2"},
	  {"SWITCHML_MASTER_PORT", "4000"},
	  {"MASTER_PORT", "z"}},
	 .master_port = 4000},
	{"an empty variable is an unset one",
	 {{"SWITCHML_RANK", ""}, {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"SWITCHML_JOB", ""}},
	 .rank = 1},
};

static int number_or(int number, int usual)
{
	return number ? number : usual;
}

static const char *text_or(const char *text, const char *usual)
{
	return text ? text : usual;
}

TEST(launchers_are_understood)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		struct sml_config config = config_of(launchers[i].variables);

		print_message("%s\n", launchers[i].what);
		assert_int_equal(config.rank, number_or(launchers[i].rank, 1));
		assert_int_equal(config.world_size, number_or(launchers[i].world_size, 2));
		assert_string_equal(config.master_address,
				    text_or(launchers[i].master_address, "127.0.0.1"));
		assert_int_equal(config.master_port, number_or(launchers[i].master_port, 28500));
		assert_string_equal(config.job, text_or(launchers[i].job, "default"));
	}
}

static const char *name_with(const struct variable *variables)
{
	static struct sml_config config;

	config = config_of(variables);
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
	struct sml_config config = config_of(variables);

	assert_true(sml_launcher_hides_rank_0(&config));
	config.master_address = "127.0.0.1";
	assert_false(sml_launcher_hides_rank_0(&config));
	variables[3] = (struct variable){"SWITCHML_MASTER_ADDR", "127.0.0.1"};
	config = config_of(variables);
	assert_false(sml_launcher_hides_rank_0(&config));
	/* All of mpirun's ranks are here, and the job has those of another mpirun, too. */
	variables[1].value = "2";
	variables[3] = (struct variable){0};
	config = config_of(variables);
	config.world_size = 4;
	assert_false(sml_launcher_hides_rank_0(&config));
}

#define MEMBER(name) offsetof(struct sml_config, name)

/* Words are taken in any case, as users of NCCL type them. */
TEST(every_variable_of_ours_is_read)
{
	static const struct {
		struct variable variables[MAX_VARIABLES];
		size_t offset;
		int number;
		const char *text; /* NULL: a number */
	} rows[] = {
		{{{"SWITCHML_SWITCH", "tor1:28500,tor2"}},
		 MEMBER(switch_address),
		 0,
		 "tor1:28500,tor2"},
		{{{"SWITCHML_JOB", "j"}}, MEMBER(job), 0, "j"},
		{{{"SWITCHML_FAULTS", "drop=5"}}, MEMBER(faults), 0, "drop=5"},
		{{{"SWITCHML_SOCKET_IFNAME", "^lo"}}, MEMBER(interface), 0, "^lo"},
		{{{"SWITCHML_TIMEOUT", "1.5"}}, MEMBER(timeout_ms), 1500, NULL},
		{{{"SWITCHML_HEARTBEAT", "0.25"}}, MEMBER(heartbeat_ms), 250, NULL},
		{{{"SWITCHML_WIRE", "int16"}}, MEMBER(wire), SML_WIRE_INT16, NULL},
		{{{"SWITCHML_WIRE", "Int8"}}, MEMBER(wire), SML_WIRE_INT8, NULL},
		{{{"SWITCHML_SLOTS", "64"}}, MEMBER(slots), 64, NULL},
		{{{"SWITCHML_THREADS", "3"}}, MEMBER(threads), 3, NULL},
		{{{"SWITCHML_MTU", "9000"}}, MEMBER(mtu), 9000, NULL},
		{{{"SWITCHML_DEBUG", "trace"}}, MEMBER(debug), SML_LOG_TRACE, NULL},
		{{{"SWITCHML_DEBUG", "INFO"}}, MEMBER(debug), SML_LOG_INFO, NULL},
		{{{"SWITCHML_DEBUG", "WARNING"}}, MEMBER(debug), SML_LOG_WARN, NULL},
		{{{"SWITCHML_SPIN", "1"}}, MEMBER(spin), 1, NULL},
		{{{"SWITCHML_SPIN", "True"}}, MEMBER(spin), 1, NULL},
		{{{"SWITCHML_SHARED_MEMORY", "no"}}, MEMBER(shared_memory), 0, NULL},
		{{{"SWITCHML_WAIT_NOTICE", "0"}}, MEMBER(wait_notice_ms), 0, NULL},
		{{{"SWITCHML_SUMMARY", "0"}}, MEMBER(summary), 0, NULL},
		{{{"SWITCHML_SUMMARY", "off"}}, MEMBER(summary), 0, NULL},
		{{{"SWITCHML_SUMMARY", "All"}}, MEMBER(summary), 2, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sml_config config = config_of(rows[i].variables);
		const void *member = (const char *)&config + rows[i].offset;

		print_message("%s=%s\n", rows[i].variables[0].name, rows[i].variables[0].value);
		if (rows[i].text)
			assert_string_equal(*(const char *const *)member, rows[i].text);
		else
			assert_int_equal(*(const int *)member, rows[i].number);
	}
}
