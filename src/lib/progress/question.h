/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks what the slots of this rank's embedded stripe are waiting for. Each slot belongs to a
 * thread, which answers, unless it has stopped. Slots that ranks share are read at once.
 */
#ifndef SML_LIB_QUESTION_H
#define SML_LIB_QUESTION_H

#include <stdbool.h>
#include <stdint.h>

struct sml_threads;
struct sml_stall_report;

/*
 * What ranks of this host share for the stripe is read. Otherwise, ask the threads, or read the
 * slots if the threads have stopped. The caller frees the report; it is partial if a thread does
 * not answer. NULL if this rank has no slots, or no memory.
 */
struct sml_stall_report *sml_question_query(struct sml_threads *threads, unsigned stripe);

/* The thread's side: answer if there is a question that it has not seen. */
void sml_question_answer(struct sml_threads *threads, unsigned thread, uint32_t *seen);

/*
 * What a switch says of a stripe (or NULL), with what is known here: where ranks of this host
 * contribute as one, which of them are late; and where all ranks are on one host, or the job has
 * failed, what the slots here say if it does not. names: who the ranks are, if nothing else says
 * it; or NULL. The caller closes it. NULL if nothing is known.
 */
struct sml_stall_report *sml_question_complete(struct sml_threads *threads, unsigned stripe,
					       struct sml_stall_report *told,
					       const struct sml_stall_report *names, bool failed);

#endif
