/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks what the slots of this rank's embedded stripe are waiting for. Each slot belongs to a
 * thread, which answers, unless it has stopped. Slots that ranks share are read at once.
 */
#ifndef SML_LIB_QUESTION_H
#define SML_LIB_QUESTION_H

#include <stdint.h>

struct sml_threads;
struct sml_stall_report;

/*
 * What ranks of this host share for the stripe is read. Otherwise, ask the threads, or read the
 * slots if the threads have stopped. The caller frees the report; it is partial if a thread does
 * not answer. NULL if this rank has no slots, or no memory.
 */
struct sml_stall_report *sml_question_query(struct sml_threads *threads, unsigned stripe);

/*
 * What all ranks share, on one host; as above. NULL if they have switches or stripes, or no memory.
 */
struct sml_stall_report *sml_question_look(const struct sml_threads *threads, unsigned stripe);

/* The thread's side: answer if there is a question that it has not seen. */
void sml_question_answer(struct sml_threads *threads, unsigned thread, uint32_t *seen);

/*
 * What a switch says, with what it cannot know where ranks of this host contribute as one: which of
 * them are late. The caller frees it. NULL if there is nothing to add, or no memory.
 */
struct sml_stall_report *sml_question_complete(const struct sml_threads *threads, unsigned stripe,
					       const struct sml_stall_report *told);

/*
 * After a failure: what a switch says (or NULL), with what it cannot know where ranks of this host
 * contribute as one: which of them are late. Valid as long as the threads.
 */
const struct sml_stall_report *sml_question_refine(struct sml_threads *threads, unsigned stripe,
						   const struct sml_stall_report *told);

/* After a failure, with the ranks' names from elsewhere. Valid as long as the threads. */
const struct sml_stall_report *sml_question_last(struct sml_threads *threads, unsigned stripe,
						 const struct sml_stall_report *names);

#endif
