/* Loaded into sockperf's client: what it sleeps for before its test, made short.
 *
 * Between the datagrams that it sends ahead and its test sockperf calls sleep(2), whatever its
 * options. No request is under way then and none is timed, so for trials of a second the wait is
 * most of their time and none of their result. The datagrams ahead have 50 ms to come back. */
#include <time.h>
#include <unistd.h>

unsigned int sleep(unsigned int seconds)
{
	struct timespec wait = {.tv_nsec = 50 * 1000 * 1000};

	if (seconds)
		nanosleep(&wait, NULL);
	return 0;
}
