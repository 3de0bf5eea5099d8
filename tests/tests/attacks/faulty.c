/* Interrupts every FAULTY_EINTR-th system call that a signal may interrupt, and makes every sync to the
 * disk take FAULTY_SLOW_MS longer, as a network file system does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int interrupted(void)
{
	static unsigned calls;
	const char *every = getenv("FAULTY_EINTR");
	if (!every || __sync_add_and_fetch(&calls, 1) % atoi(every))
		return 0;
	errno = EINTR;
	return 1;
}

static void slow(void)
{
	const char *ms = getenv("FAULTY_SLOW_MS");
	if (ms)
		usleep(atoi(ms) * 1000);
}

#define CALL(type, name, parameters, arguments)                              \
	type name parameters                                                 \
	{                                                                    \
		type (*real) parameters = dlsym(RTLD_NEXT, #name);           \
		return interrupted() ? -1 : real arguments;                  \
	}

CALL(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n))
CALL(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
CALL(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))
CALL(ssize_t, send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags))
CALL(int, poll, (struct pollfd *fds, nfds_t n, int ms), (fds, n, ms))
CALL(int, accept4, (int fd, struct sockaddr *from, socklen_t *n, int flags), (fd, from, n, flags))
CALL(int, connect, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n))
CALL(pid_t, waitpid, (pid_t pid, int *status, int flags), (pid, status, flags))
CALL(int, ftruncate64, (int fd, off_t n), (fd, n))

int fsync(int fd)
{
	int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
	slow();
	return interrupted() ? -1 : real(fd);
}

int fdatasync(int fd)
{
	int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
	slow();
	return interrupted() ? -1 : real(fd);
}
