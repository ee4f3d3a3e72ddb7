/* SPDX-License-Identifier: BSD-3-Clause */
/* See gloo.h. */
#include "demo/gloo.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>

using Task = std::packaged_task<void()>;

struct demo_gloo {
	std::shared_ptr<gloo::rendezvous::Context> context;
	std::future<void> calls[4];
	std::mutex mutex; /* of the queue */
	std::condition_variable changed;
	std::queue<Task> queue; /* a task without a function ends the thread */
	std::thread thread;
};

static void end(const std::exception &error)
{
	std::fprintf(stderr, "%s: Gloo: %s\n", program_invocation_short_name,
		     error.what());
	std::exit(EXIT_FAILURE);
}

template <typename T>
static void allreduce(demo_gloo *gloo, bool ring, const void *in, void *out, size_t count)
{
	using Algorithm = gloo::AllreduceOptions::Algorithm;
	gloo::AllreduceOptions options(gloo->context);

	options.setAlgorithm(ring ? Algorithm::RING : Algorithm::BCUBE);
	options.setInput(const_cast<T *>(static_cast<const T *>(in)), count);
	options.setOutput(static_cast<T *>(out), count);
	options.setReduceFunction(
		static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<T>));
	gloo::allreduce(options);
}

static void push(demo_gloo *gloo, Task task)
{
	std::lock_guard<std::mutex> lock(gloo->mutex);

	gloo->queue.push(std::move(task));
	gloo->changed.notify_one();
}

static void serve(demo_gloo *gloo)
{
	for (;;) {
		std::unique_lock<std::mutex> lock(gloo->mutex);

		gloo->changed.wait(lock, [gloo] { return !gloo->queue.empty(); });
		Task task = std::move(gloo->queue.front());

		gloo->queue.pop();
		lock.unlock();
		if (!task.valid())
			return;
		task();
	}
}

struct demo_gloo *demo_gloo_open(const char *folder, int rank, int world)
{
	const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
	std::unique_ptr<demo_gloo> gloo(new demo_gloo());

	try {
		gloo::transport::tcp::attr attributes;

		attributes.iface = interface ? interface : "lo";
		auto device = gloo::transport::tcp::CreateDevice(attributes);
		gloo::rendezvous::FileStore store(folder);

		gloo->context = std::make_shared<gloo::rendezvous::Context>(rank, world);
		gloo->context->setTimeout(std::chrono::seconds(30));
		gloo->context->connectFullMesh(store, device);
		gloo->thread = std::thread(serve, gloo.get());
	} catch (const std::exception &error) {
		end(error);
	}
	return gloo.release();
}

void demo_gloo_close(struct demo_gloo *gloo)
{
	push(gloo, Task());
	gloo->thread.join();
	delete gloo;
}

void demo_gloo_allreduce(struct demo_gloo *gloo, bool ring, bool half, const void *in, void *out,
			 size_t count)
{
	try {
		(half ? allreduce<gloo::float16> : allreduce<float>)(gloo, ring, in, out, count);
	} catch (const std::exception &error) {
		end(error);
	}
}

void demo_gloo_submit(struct demo_gloo *gloo, int call, const float *in, float *out, size_t count)
{
	Task task([=] { allreduce<float>(gloo, true, in, out, count); });

	gloo->calls[call] = task.get_future();
	push(gloo, std::move(task));
}

void demo_gloo_wait(struct demo_gloo *gloo, int call)
{
	try {
		gloo->calls[call].get();
	} catch (const std::exception &error) {
		end(error);
	}
}
