/* SPDX-License-Identifier: BSD-3-Clause */
/* See gloo.h. */
#include "demo/gloo.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace
{

struct Call {
	int number;
	const float *in;
	float *out;
	size_t count;
	bool average;
};

} // namespace

struct demo_gloo {
	int rank, world;
	std::shared_ptr<gloo::rendezvous::Context> context;
	std::mutex mutex; /* of everything below */
	std::condition_variable changed;
	std::deque<Call> queue;
	bool done[DEMO_GLOO_CALLS];
	bool ending, failed;
	std::thread thread;
};

static void complain(int rank, const char *why)
{
	std::fprintf(stderr, "switchml-demo: rank %d: Gloo: %s\n", rank, why);
}

static void allreduce(demo_gloo *gloo, const Call &call)
{
	gloo::AllreduceOptions options(gloo->context);

	options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
	options.setInput(const_cast<float *>(call.in), call.count);
	options.setOutput(call.out, call.count);
	options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(
		&gloo::sum<float>));
	gloo::allreduce(options);
	for (size_t i = 0; call.average && i < call.count; i++)
		call.out[i] /= static_cast<float>(gloo->world);
}

static void serve(demo_gloo *gloo)
{
	std::unique_lock<std::mutex> lock(gloo->mutex);

	for (;;) {
		gloo->changed.wait(lock, [gloo] { return gloo->ending || !gloo->queue.empty(); });
		if (gloo->ending)
			return;
		Call call = gloo->queue.front();

		gloo->queue.pop_front();
		lock.unlock();
		try {
			allreduce(gloo, call);
			lock.lock();
		} catch (const std::exception &error) {
			lock.lock();
			complain(gloo->rank, error.what());
			gloo->failed = true;
		}
		gloo->done[call.number] = true;
		gloo->changed.notify_all();
	}
}

struct demo_gloo *demo_gloo_open(const char *folder, int rank, int world, int timeout_ms)
{
	const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
	std::unique_ptr<demo_gloo> gloo(new demo_gloo());

	gloo->rank = rank;
	gloo->world = world;
	try {
		gloo::transport::tcp::attr attributes;

		attributes.iface = interface ? interface : "lo";
		auto device = gloo::transport::tcp::CreateDevice(attributes);
		gloo::rendezvous::FileStore store(folder);

		gloo->context = std::make_shared<gloo::rendezvous::Context>(rank, world);
		gloo->context->setTimeout(std::chrono::milliseconds(timeout_ms));
		gloo->context->connectFullMesh(store, device);
		gloo->thread = std::thread(serve, gloo.get());
	} catch (const std::exception &error) {
		complain(rank, error.what());
		return nullptr;
	}
	return gloo.release();
}

void demo_gloo_close(struct demo_gloo *gloo)
{
	if (!gloo)
		return;
	{
		std::lock_guard<std::mutex> lock(gloo->mutex);

		gloo->ending = true;
	}
	gloo->changed.notify_all();
	gloo->thread.join();
	delete gloo;
}

void demo_gloo_submit(struct demo_gloo *gloo, int call, const float *in, float *out, size_t count,
		      bool average)
{
	std::lock_guard<std::mutex> lock(gloo->mutex);

	gloo->done[call] = false;
	gloo->queue.push_back({call, in, out, count, average});
	gloo->changed.notify_all();
}

int demo_gloo_wait(struct demo_gloo *gloo, int call)
{
	std::unique_lock<std::mutex> lock(gloo->mutex);

	gloo->changed.wait(lock, [gloo, call] { return gloo->done[call] || gloo->failed; });
	return gloo->failed ? -EIO : 0;
}
