/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training that goes on when workers die, and that others may join: kill -9 any of them, and start
 * it again.
 *
 *	cc -o elastic examples/elastic.c $(pkg-config --cflags --libs switchml) -lm
 *	for i in 1 2 3 4; do ./elastic /tmp/meeting 4 & done
 *
 * The workers agree on who is in, the membership, by files of a directory that they share. A real
 * program may have a launcher, a store or a quorum for that. Membership n is the directory DIR/n:
 *
 *	DIR/n/0001-host-4711	a worker that is alive wants to be in it (its last rank, host, pid)
 *	DIR/n/members		all who are: the file is linked once, by the first who has waited
 *
 * Whoever comes later than that is in the next one. A worker that has died, or that is frozen,
 * writes no file.
 *
 * Without a directory, the switch decides, and they need not agree on anything. The first workers
 * have ranks; a new one waits at the switch until the others let it in:
 *
 *	for i in 0 1 2 3; do SWITCHML_RANK=$i SWITCHML_WORLD_SIZE=4 ./elastic 2 & done
 *	SWITCHML_JOIN=1 ./elastic 2
 *
 * The parameters come from a member that has made the most steps. The training ends after STEPS of
 * them; with ELASTIC_UNTIL=FILE, not before the file exists, however slow the workers' machine is.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <switchml.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WEIGHTS 16
#define SAMPLES 1024
#define STEPS	600
/* How long the first worker waits for others, and the longest wait for enough of them. */
#define TOGETHER_MS 100
#define PATIENCE_MS 60000
/* A member that dies while all join is missed after this time. */
#define JOIN_MS	    5000
#define NEWCOMER    9999
#define MAX_WORKERS 64

static struct worker {
	const char *directory; /* NULL: the switch decides */
	int at_least;	       /* as many workers as this */
	char name[80];
	int membership, rank, n;
	char first[80]; /* member of it */
	struct sml_context *job;
	/* What is trained. */
	int step;
	float weights[WEIGHTS];
} self = {.rank = NEWCOMER};

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e3 * (double)now.tv_sec + (double)now.tv_nsec / 1e6;
}

/* ---- who is in ---- */

static const char *path_of(int membership, const char *file)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%d/%s", self.directory, membership, file);
	return path;
}

static int exists(int membership, const char *file)
{
	return access(path_of(membership, file), F_OK) == 0;
}

static FILE *open_file(const char *path, const char *mode)
{
	FILE *file = fopen(path, mode);

	if (file == NULL)
		err(1, "%s", path);
	return file;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Those who want to be in it, in the order of their ranks. */
static int list_workers(int membership, char names[][sizeof(self.name)])
{
	DIR *directory = opendir(path_of(membership, ""));
	const struct dirent *entry;
	int n = 0;

	if (directory == NULL)
		err(1, "%s", path_of(membership, ""));
	while ((entry = readdir(directory)) != NULL && n < MAX_WORKERS)
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			snprintf(names[n++], sizeof(names[0]), "%.79s", entry->d_name);
	closedir(directory);
	qsort(names, (size_t)n, sizeof(names[0]), by_name);
	return n;
}

/* link() makes the file as a whole, and only once. */
static void propose_members(int membership, char names[][sizeof(self.name)], int n)
{
	char mine[PATH_MAX], file[sizeof(self.name) + 2];
	FILE *list;

	snprintf(file, sizeof(file), ".%s", self.name);
	snprintf(mine, sizeof(mine), "%s", path_of(membership, file));
	list = open_file(mine, "w");
	for (int i = 0; i < n; i++)
		fprintf(list, "%s\n", names[i]);
	fclose(list);
	if (link(mine, path_of(membership, "members")) < 0 && errno != EEXIST)
		err(1, "%s", path_of(membership, "members"));
}

/* This worker's rank among the members; -1: it came too late. */
static int read_members(int membership, int *n)
{
	FILE *list = open_file(path_of(membership, "members"), "r");
	char line[sizeof(self.name) + 1];
	int rank = -1;

	for (*n = 0; fgets(line, sizeof(line), list); ++*n) {
		line[strcspn(line, "\n")] = '\0';
		if (*n == 0)
			snprintf(self.first, sizeof(self.first), "%.79s", line);
		if (strcmp(line, self.name) == 0)
			rank = *n;
	}
	fclose(list);
	return rank;
}

static void ask_to_be_in(int membership)
{
	char host[32] = "host";

	gethostname(host, sizeof(host) - 1);
	snprintf(self.name, sizeof(self.name), "%04d-%s-%d", self.rank, host, (int)getpid());
	if (mkdir(path_of(membership, ""), 0777) < 0 && errno != EEXIST)
		err(1, "%s", path_of(membership, ""));
	fclose(open_file(path_of(membership, self.name), "w"));
}

/* The next membership that this worker is in. */
static void agree(void)
{
	static char names[MAX_WORKERS][sizeof(self.name)];
	double began_ms = now_ms();
	int n, rank = -1;

	while (rank < 0) {
		while (exists(self.membership + 1, "members"))
			self.membership++;
		self.membership++;
		ask_to_be_in(self.membership);
		for (double asked_ms = now_ms(); !exists(self.membership, "members");) {
			usleep(2000);
			n = list_workers(self.membership, names);
			if (exists(0, "done"))
				errx(0, "the training has ended");
			if (now_ms() - began_ms > PATIENCE_MS)
				errx(1, "only %d of at least %d workers have come", n,
				     self.at_least);
			if (n >= self.at_least && now_ms() - asked_ms >= TOGETHER_MS)
				propose_members(self.membership, names, n);
		}
		rank = read_members(self.membership, &self.n);
	}
	self.rank = rank;
}

/* ---- the job ---- */

static void read_environment(struct sml_config *config)
{
	*config = (struct sml_config)SML_CONFIG_INIT;
	if (sml_config_init(config) < 0)
		errx(1, "%s", sml_error_text(NULL));
}

static int join_members(void)
{
	struct sml_membership members = SML_MEMBERSHIP_INIT;
	struct sml_config config;
	char name[112];

	agree();
	/* Another training that begins with membership 1 as well has other processes. */
	snprintf(name, sizeof(name), "elastic %d of %s", self.membership, self.first);
	members.job = name;
	members.rank = self.rank;
	members.world_size = self.n;
	members.timeout_ms = JOIN_MS;
	if (self.job)
		return sml_reconfigure(self.job, &members);
	read_environment(&config);
	config.job = name;
	config.rank = self.rank;
	config.world_size = self.n;
	config.timeout_ms = JOIN_MS;
	return sml_open(&self.job, &config);
}

/* The switch knows who is left, and who waits. */
static int join_as_the_switch_decides(void)
{
	struct sml_info info = SML_INFO_INIT;
	struct sml_membership members = SML_MEMBERSHIP_INIT;
	struct sml_config config;
	int error;

	members.min_ranks = self.at_least;
	if (self.job) {
		error = sml_reconfigure(self.job, &members);
	} else {
		read_environment(&config);
		config.min_ranks = self.at_least;
		error = sml_open(&self.job, &config);
	}
	if (error == 0) {
		self.membership++;
		sml_get_info(self.job, &info);
		self.rank = info.rank;
		self.n = info.world_size;
	}
	return error;
}

/*
 * After an error, a member may have completed a step that failed on another one; and newcomers have
 * made none. All go on from the most steps: the lowest rank with so many sends what it has.
 */
static int share_state(void)
{
	int32_t most[] = {self.step, self.membership}, root = self.n;
	int error = sml_allreduce(self.job, most, most, 2, SML_INT32, SML_MAX, NULL, NULL);

	if (error == 0 && self.step == most[0])
		root = self.rank;
	if (error == 0)
		error = sml_allreduce(self.job, &root, &root, 1, SML_INT32, SML_MIN, NULL, NULL);
	if (error == 0)
		error = sml_broadcast(self.job, self.weights, WEIGHTS, SML_FLOAT32, root, NULL,
				      NULL);
	if (error == 0) {
		self.step = most[0];
		self.membership = most[1];
	}
	return error;
}

/* Until a membership works. */
static void go_on_with_others(void)
{
	double began_ms = now_ms();
	int error;

	do {
		error = self.directory ? join_members() : join_as_the_switch_decides();
		if (error == 0)
			error = share_state();
		if (error)
			fprintf(stderr, "membership %d: %s\n", self.membership,
				sml_error_text(self.job));
		/* Other settings than the others have: asking again does not change that. */
		if (error == SML_ERROR_MISMATCH || (error && now_ms() - began_ms > PATIENCE_MS))
			errx(1, "cannot go on");
	} while (error);
	printf("membership %d: rank %d of %d, from step %d (after %.0f ms)\n", self.membership,
	       self.rank, self.n, self.step, now_ms() - began_ms);
	fflush(stdout);
}

/* ---- training: a line through samples, by gradient descent ---- */

static float input_of(int sample, int weight)
{
	return sinf((float)(sample * WEIGHTS + weight) * 0.37f);
}

static float target_of(int sample)
{
	const int middle = WEIGHTS / 2;
	float y = 0;

	for (int i = 0; i < WEIGHTS; i++)
		y += input_of(sample, i) * (float)(i - middle);
	return y;
}

static int has_newcomers(void)
{
	struct sml_info info = SML_INFO_INIT;

	if (self.directory)
		return exists(self.membership + 1, "");
	sml_get_info(self.job, &info);
	return info.waiting > 0;
}

static int has_enough(void)
{
	const char *until = getenv("ELASTIC_UNTIL");

	return self.step + 1 >= STEPS && (until == NULL || access(until, F_OK) == 0);
}

/* What the members add up in a step: the gradient, and these. */
enum { LOSS = WEIGHTS, NEWCOMERS, ENOUGH, SUMS };

/* Of this rank's samples: all of them belong to one member. */
static void add_up(float sums[SUMS])
{
	memset(sums, 0, sizeof(float) * SUMS);
	for (int sample = self.rank; sample < SAMPLES; sample += self.n) {
		float wrong = -target_of(sample);

		for (int i = 0; i < WEIGHTS; i++)
			wrong += input_of(sample, i) * self.weights[i];
		for (int i = 0; i < WEIGHTS; i++)
			sums[i] += wrong * input_of(sample, i) / SAMPLES;
		sums[LOSS] += wrong * wrong / SAMPLES;
	}
	/* One rank looks for newcomers and for the end, so that all see them in the same step. */
	sums[NEWCOMERS] = self.rank == 0 && has_newcomers();
	sums[ENOUGH] = self.rank == 0 && has_enough();
}

/* The weights change only when the sums are complete. */
static int make_step(float sums[SUMS])
{
	int error;

	add_up(sums);
	error = sml_allreduce(self.job, sums, sums, SUMS, SML_FLOAT32, SML_SUM, NULL, NULL);
	if (error)
		return error;
	for (int i = 0; i < WEIGHTS; i++)
		self.weights[i] -= 0.01f * sums[i];
	if (self.step++ % 100 == 0 && self.rank == 0)
		printf("step %d: loss %.6f, %d workers\n", self.step - 1, (double)sums[LOSS],
		       self.n);
	fflush(stdout);
	usleep(5000); /* as if the step took longer */
	return 0;
}

static void train(void)
{
	float sums[SUMS];
	int error;

	do {
		error = make_step(sums);
		if (error)
			fprintf(stderr, "rank %d: %s\n", self.rank, sml_error_text(self.job));
		if (error || (sums[NEWCOMERS] > 0 && sums[ENOUGH] == 0))
			go_on_with_others();
	} while (error || sums[ENOUGH] == 0);
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3 || atoi(argv[argc - 1]) < 1)
		errx(2, "usage: elastic [DIRECTORY] AT_LEAST");
	self.directory = argc == 3 ? argv[1] : NULL;
	self.at_least = atoi(argv[argc - 1]);
	if (self.directory && mkdir(self.directory, 0777) < 0 && errno != EEXIST)
		err(1, "%s", self.directory);
	go_on_with_others();
	train();
	/* Who comes now has come too late. */
	if (self.directory && self.rank == 0 && mkdir(path_of(0, ""), 0777) == 0)
		mkdir(path_of(0, "done"), 0777);
	/* All steps are made, so it does not matter if another one dies now. */
	(void)sml_close(self.job);
	printf("rank %d: done, the first weights are %.9g %.9g\n", self.rank,
	       (double)self.weights[0], (double)self.weights[1]);
	return 0;
}
