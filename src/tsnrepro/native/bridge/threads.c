/* SPDX-License-Identifier: MIT
 *
 * The threads that receive and send.
 */
#include "state.h"

#include <poll.h>
#include <rte_launch.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum {
	AGE_S = 1,
	/* A timer wakes a thread late by some microseconds, which a frame would leave late and the
	 * line stand idle: the last of a wait is polled. */
	POLLED_PS = 30000000
};

/* Wait until a frame arrives, or the time at which a scheduler wants to look again. */
static void rest(struct bridge *bridge, int first, int last, int64_t look_again)
{
	struct pollfd sockets[MOST_PORTS];
	int64_t limit = bridge->settings.sleep_us * 1000000;
	int count = 0;

	if (look_again != NEVER) {
		int64_t left = look_again - now_ps(bridge) - POLLED_PS;
		limit = left < limit ? left : limit;
	}
	if (limit <= 0)
		return;
	struct timespec time = to_timespec((uint64_t)limit / 1000);
	for (int number = first; number < last; number++)
		if (bridge->ports[number].socket >= 0)
			sockets[count++] = (struct pollfd){.fd = bridge->ports[number].socket, .events = POLLIN};
	ppoll(sockets, (nfds_t)count, &time, NULL);
	for (int number = 0; number < count; number++)
		if (sockets[number].revents & POLLERR) {
			/* For example because the device went down; reading the error clears it. */
			int error;
			socklen_t length = sizeof error;
			getsockopt(sockets[number].fd, SOL_SOCKET, SO_ERROR, &error, &length);
		}
}

static void maintain_table(struct bridge *bridge)
{
	static int64_t aged_s;
	int64_t second = now_s();

	for (int number = 0; number < bridge->port_count; number++)
		if (atomic_load(&bridge->ports[number].forget) &&
			atomic_exchange(&bridge->ports[number].forget, false))
			table_forget(number);
	if (second >= aged_s + AGE_S) {
		table_age(second, bridge->settings.ageing_s);
		aged_s = second;
	}
}

/* Give a thread exact timers and, with `realtime`, priority over ordinary programs. */
static void prepare_thread(const struct bridge *bridge)
{
	struct sched_param first = {.sched_priority = 1};

	prctl(PR_SET_TIMERSLACK, 1UL);
	if (bridge->settings.realtime && sched_setscheduler(0, SCHED_FIFO, &first))
		die("realtime is refused: it needs CAP_SYS_NICE");
}

/* An Rx thread, and the ports that it serves: from first to before last. */
struct receiver {
	struct bridge *bridge;
	int first, last;
};

static int run_receiver(void *argument)
{
	const struct receiver *receiver = argument;
	struct bridge *bridge = receiver->bridge;

	prepare_thread(bridge);
	while (!atomic_load_explicit(&bridge->ending, memory_order_relaxed)) {
		int64_t look_again = NEVER;
		bool any = receive_turn(bridge, receiver->first, receiver->last);
		if (receiver->first == 0)
			maintain_table(bridge);
		if (bridge->together)
			any |= transmit_turn(bridge, &look_again);
		if (!any && bridge->settings.sleep_us > 0)
			rest(bridge, receiver->first, receiver->last, look_again);
	}
	return 0;
}

static int run_sender(void *argument)
{
	struct bridge *bridge = argument;

	prepare_thread(bridge);
	while (!atomic_load_explicit(&bridge->ending, memory_order_relaxed)) {
		int64_t look_again;
		if (!transmit_turn(bridge, &look_again) && bridge->settings.sleep_us > 0)
			rest(bridge, 0, 0, look_again);
	}
	return 0;
}

void start_threads(struct bridge *bridge)
{
	static struct receiver started[MOST_PORTS];
	bool each = bridge->settings.receiver_each;

	for (int place = 0; place < receivers(bridge); place++) {
		started[place] = (struct receiver){
			bridge,
			each ? place : 0,
			each ? place + 1 : bridge->port_count,
		};
		rte_eal_remote_launch(run_receiver, &started[place], (unsigned)place + 1);
	}
	if (!bridge->together)
		rte_eal_remote_launch(run_sender, bridge, (unsigned)workers(bridge));
}
