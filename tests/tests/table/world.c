/* A world that misbehaves, by files in the folder TMPDIR, which every process gets:
 *   full          nothing can be written to files whose name holds ".log"
 *   jump          seconds by which the wall clock is off
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int has(const char *name, char *path, size_t size)
{
	const char *folder = getenv("TMPDIR");
	return folder && snprintf(path, size, "%s/%s", folder, name) < (int)size && access(path, F_OK) == 0;
}

static int is_full(int fd)
{
	char path[512], target[512];
	if (!has("full", path, sizeof path))
		return 0;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(path, target, sizeof target - 1);
	if (length <= 0)
		return 0;
	target[length] = 0;
	const char *name = strrchr(target, '/');
	return name && strstr(name, ".log") != NULL;
}

ssize_t write(int fd, const void *bytes, size_t count)
{
	static ssize_t (*real)(int, const void *, size_t);
	if (!real)
		real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	if (is_full(fd)) {
		errno = ENOSPC;
		return -1;
	}
	return real(fd, bytes, count);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	char path[512], text[32] = "";
	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int result = real(clock, now);
	if (result == 0 && clock == CLOCK_REALTIME && has("jump", path, sizeof path)) {
		int fd = open(path, O_RDONLY);
		if (fd >= 0) {
			if (read(fd, text, sizeof text - 1) > 0)
				now->tv_sec += atol(text);
			close(fd);
		}
	}
	return result;
}
