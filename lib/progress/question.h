/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What are the slots of this rank's own stripe waiting for? Each belongs to a
 * thread, which is asked, unless it has stopped.
 */
#ifndef SML_LIB_QUESTION_H
#define SML_LIB_QUESTION_H

#include <stdint.h>

struct sml_crew;
struct sml_stall_report;

/* Ask the threads, or look when they have stopped. To be freed; NULL: no answer, or no memory. */
struct sml_stall_report *sml_question_ask(struct sml_crew *crew);

/* The thread's side: answer if there is a question that it has not seen. */
void sml_question_answer(struct sml_crew *crew, unsigned thread, uint32_t *seen);

/* After a failure, with the ranks' names from elsewhere: lives as long as the own stripe. */
const struct sml_stall_report *sml_question_last(struct sml_crew *crew,
						 const struct sml_stall_report *names);

#endif
