/* Kills a process at the STOP_AT-th time that it writes to, syncs or renames a file; with
 * STOP_HALF after half of the bytes of that write. What goes to pipes and terminals is not counted.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static long left;
static int half;

__attribute__((constructor)) static void begin(void)
{
	const char *at = getenv("STOP_AT");
	left = at ? atol(at) : 0;
	half = getenv("STOP_HALF") != NULL;
}

static int is_file(int fd)
{
	struct stat seen;
	return fstat(fd, &seen) == 0 && (S_ISREG(seen.st_mode) || S_ISDIR(seen.st_mode));
}

static int stops(void)
{
	return left > 0 && __sync_sub_and_fetch(&left, 1) == 0;
}

static void stop(void)
{
	kill(getpid(), SIGKILL);
	pause();
}

ssize_t write(int fd, const void *bytes, size_t count)
{
	ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
	if (is_file(fd) && stops()) {
		if (half)
			real(fd, bytes, count / 2);
		stop();
	}
	return real(fd, bytes, count);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	ssize_t (*real)(int, const struct iovec *, int) = dlsym(RTLD_NEXT, "writev");
	if (is_file(fd) && stops()) {
		if (half)
			real(fd, parts, count / 2);
		stop();
	}
	return real(fd, parts, count);
}

int fsync(int fd)
{
	int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
	if (stops())
		stop();
	return real(fd);
}

int fdatasync(int fd)
{
	int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
	if (stops())
		stop();
	return real(fd);
}

int rename(const char *from, const char *to)
{
	int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
	if (stops())
		stop();
	return real(from, to);
}
