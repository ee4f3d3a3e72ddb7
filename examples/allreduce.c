/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank contributes its own numbers; all of them print the same average. */
#include <err.h>
#include <stdio.h>
#include <switchml.h>

int main(void)
{
	struct sml_info info = SML_INFO_INIT;
	struct sml_context *job;
	float gradient[1000];

	if (sml_open(&job, NULL) < 0) /* rank, world size and switch from the environment */
		errx(1, "%s", sml_error_text(NULL));
	sml_get_info(job, &info);
	for (int i = 0; i < 1000; i++)
		gradient[i] = (float)(i * (info.rank + 1));
	if (sml_allreduce(job, gradient, gradient, 1000, SML_FLOAT32, SML_AVG, NULL, NULL) < 0)
		errx(1, "%s", sml_error_text(job));
	printf("rank %d of %d: %g\n", info.rank, info.world_size, gradient[999]);
	return sml_close(job) < 0;
}
