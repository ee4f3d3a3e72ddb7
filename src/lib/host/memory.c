/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/host/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fork.h"

#define MAGIC 0x53574954434d4c32ull
/*
 * All rows together. They should stay in the cache that cores share; but ranks that sleep are woken
 * as often as the others have used all slots, which costs more than a core's own cache gains.
 */
#define ROWS_BYTES     (6u << 20)
#define DATA_SLOTS_MIN 4
#define DATA_SLOTS_MAX 256

#define ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))

/* ---- layout ---- */

static size_t row_stride_of(const struct sml_host_terms *terms)
{
	return ROUND_UP(sizeof(struct sml_host_note) + 4u * (size_t)terms->lanes, 64);
}

static size_t n_buffers(const struct sml_host_terms *terms)
{
	return 2 * (size_t)sml_host_slots(terms);
}

static size_t rows_offset(const struct sml_host_terms *terms)
{
	return sizeof(struct sml_host_head) + n_buffers(terms) * sizeof(struct sml_host_buffer);
}

size_t sml_host_bytes(const struct sml_host_terms *terms)
{
	size_t rows = n_buffers(terms) * (terms->n_ranks + 1u) * row_stride_of(terms);
	size_t bytes = rows_offset(terms) + rows;

	return ROUND_UP(bytes < terms->room_bytes ? terms->room_bytes : bytes, 4096);
}

static uint16_t limit(size_t n, size_t least, size_t most)
{
	return (uint16_t)(n < least ? least : n > most ? most : n);
}

void sml_host_choose_slots(struct sml_host_terms *terms, uint16_t head_slots, uint16_t data_slots)
{
	size_t slot_bytes = 2 * (terms->n_ranks + 1u) * row_stride_of(terms);
	uint16_t data = limit(ROWS_BYTES / slot_bytes, DATA_SLOTS_MIN, DATA_SLOTS_MAX);
	uint16_t head = limit(data / 4, 2, 32);

	terms->data_slots = data < data_slots ? data : data_slots;
	terms->head_slots = head < head_slots ? head : head_slots;
}

static void lay_out(struct sml_host_memory *memory, const struct sml_host_terms *terms, void *bytes)
{
	*memory = (struct sml_host_memory){
		.terms = *terms,
		.head = bytes,
		.buffers = (struct sml_host_buffer *)(void *)((uint8_t *)bytes +
							      sizeof(struct sml_host_head)),
		.rows = (uint8_t *)bytes + rows_offset(terms),
		.row_stride = row_stride_of(terms),
		.bytes = sml_host_bytes(terms),
	};
}

static bool equal(const struct sml_host_terms *a, const struct sml_host_terms *b)
{
	return a->proof == b->proof && a->job == b->job && a->lanes == b->lanes &&
	       a->head_slots == b->head_slots && a->data_slots == b->data_slots &&
	       a->n_ranks == b->n_ranks && a->divisor == b->divisor && a->goes_up == b->goes_up &&
	       a->room_bytes == b->room_bytes;
}

void sml_host_lay_out(struct sml_host_memory *memory, const struct sml_host_terms *terms,
		      void *bytes)
{
	lay_out(memory, terms, bytes);
	memory->head->terms = *terms;
	/* The first use of slot i has ticket i. */
	memory->head->tickets[SML_HEAD].value = terms->head_slots;
	memory->head->tickets[SML_DATA].value = terms->data_slots;
	memory->head->magic = MAGIC;
}

/* ---- descriptors ---- */

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* A child made by fork() must not take part. */
static void *map_bytes(int fd, size_t bytes)
{
	void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (place == MAP_FAILED)
		return NULL;
	(void)madvise(place, bytes, MADV_DONTFORK);
	return place;
}

/* Beyond this process's limit on files, allocating would end it by SIGXFSZ. */
static bool is_within_limit(size_t bytes)
{
	struct rlimit most;

	return getrlimit(RLIMIT_FSIZE, &most) < 0 || most.rlim_cur == RLIM_INFINITY ||
	       bytes <= most.rlim_cur;
}

int sml_host_create(struct sml_host_memory *memory, const struct sml_host_terms *terms)
{
	size_t bytes = sml_host_bytes(terms);
	void *place;
	int fd, error;

	if (!is_within_limit(bytes))
		return -EFBIG;
	fd = sml_fd_lift(memfd_create("switchml", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return -errno;
	/* All pages now: later, a machine without memory would end a rank by a signal. */
	error = -posix_fallocate(fd, 0, (off_t)bytes);
	if (error == 0 && fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0)
		error = -errno;
	place = error ? NULL : map_bytes(fd, bytes);
	if (place == NULL) {
		error = error ? error : -errno;
		close(fd);
		return error;
	}
	sml_host_lay_out(memory, terms, place);
	return fd;
}

int sml_host_map(struct sml_host_memory *memory, const struct sml_host_terms *terms, int fd)
{
	size_t bytes = sml_host_bytes(terms);
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat about;
	void *place;

	if (fstat(fd, &about) < 0)
		return -errno;
	/* Only a sealed memfd cannot shrink under us, which would end this process. */
	if (seals < 0 || (seals & SEALS) != SEALS || (uint64_t)about.st_size != bytes)
		return -EPROTO;
	place = map_bytes(fd, bytes);
	if (place == NULL)
		return -errno;
	lay_out(memory, terms, place);
	if (memory->head->magic == MAGIC && equal(&memory->head->terms, terms))
		return 0;
	sml_host_unmap(memory);
	return -EPROTO;
}

bool sml_host_renew(struct sml_host_memory *memory, const struct sml_host_terms *terms,
		    bool is_leader)
{
	struct sml_host_memory next;

	lay_out(&next, terms, memory->head);
	if (next.bytes > memory->bytes)
		return false;
	/* Only what threads that wait, or wake, do not read. */
	memory->terms.lanes = terms->lanes;
	memory->terms.divisor = terms->divisor;
	memory->terms.head_slots = terms->head_slots;
	memory->terms.data_slots = terms->data_slots;
	memory->rows = next.rows;
	memory->row_stride = next.row_stride;
	if (is_leader)
		memset(memory->buffers, 0, memory->bytes - sizeof(*memory->head));
	return true;
}

static size_t part_bytes(struct sml_host_terms terms)
{
	terms.room_bytes = 0;
	return sml_host_bytes(&terms);
}

uint64_t sml_host_room_for_parts(const struct sml_host_terms *terms, unsigned n)
{
	return (uint64_t)n * part_bytes(*terms);
}

struct sml_host_memory sml_host_part(const struct sml_host_memory *memory, unsigned part)
{
	size_t bytes = part_bytes(memory->terms);
	struct sml_host_memory view;

	sml_assert((part + 1) * bytes <= memory->bytes);
	lay_out(&view, &memory->terms, (uint8_t *)memory->head + part * bytes);
	view.bytes = part == 0 ? memory->bytes : 0;
	return view;
}

void sml_host_unmap(struct sml_host_memory *memory)
{
	if (memory->head && memory->bytes)
		munmap(memory->head, memory->bytes);
	*memory = (struct sml_host_memory){.head = NULL};
}
