/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of Gloo, for bench/compare. Ranks meet in a folder (a FileStore), as
 * PyTorch's file:// rendezvous does, and talk TCP.
 *
 *	BENCH_ALGORITHM	ring or bcube
 *	BENCH_STORE	the folder
 */
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "bench/peer.h"

namespace
{

struct Job {
	std::shared_ptr<gloo::rendezvous::Context> context;
	gloo::AllreduceOptions::Algorithm algorithm;
	std::string why;
};

template <typename T>
void add(gloo::AllreduceOptions &options, const void *input, void *output, size_t count)
{
	options.setInput(const_cast<T *>(static_cast<const T *>(input)), count);
	options.setOutput(static_cast<T *>(output), count);
	options.setReduceFunction(
		static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<T>));
}

int allreduce(void *state, sml_type type, const void *input, void *output, size_t count,
	      unsigned pieces, const char **why)
{
	auto *job = static_cast<Job *>(state);

	*why = "Gloo is measured with one call at a time only";
	if (pieces != 1)
		return -1;
	*why = "Gloo adds float32 and float16 only";
	if (type != SML_FLOAT32 && type != SML_FLOAT16)
		return -1;
	try {
		gloo::AllreduceOptions options(job->context);

		options.setAlgorithm(job->algorithm);
		(type == SML_FLOAT16 ? add<gloo::float16> : add<float>)(options, input, output,
									count);
		gloo::allreduce(options);
	} catch (const std::exception &error) {
		job->why = error.what();
		*why = job->why.c_str();
		return -1;
	}
	return 0;
}

std::string text(const char *name)
{
	const char *value = std::getenv(name);

	return value ? value : "";
}

} // namespace

int main()
{
	bench_library library = {};
	Job job = {};

	library.state = &job;
	library.float_sums = true;
	library.allreduce = allreduce;
	library.rank = bench_environment_number("BENCH_RANK");
	library.n_ranks = bench_environment_number("BENCH_RANKS");
	job.algorithm = text("BENCH_ALGORITHM") == "bcube"
				? gloo::AllreduceOptions::Algorithm::BCUBE
				: gloo::AllreduceOptions::Algorithm::RING;
	try {
		gloo::transport::tcp::attr attributes;

		attributes.iface = "eth0";
		auto device = gloo::transport::tcp::CreateDevice(attributes);
		gloo::rendezvous::FileStore store(text("BENCH_STORE"));

		job.context =
			std::make_shared<gloo::rendezvous::Context>(library.rank, library.n_ranks);
		job.context->connectFullMesh(store, device);
	} catch (const std::exception &error) {
		std::fprintf(stderr, "Gloo: %s\n", error.what());
		return 1;
	}
	return bench_serve(&library);
}
