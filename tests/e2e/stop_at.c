/* Preloaded into a program (LD_PRELOAD): just before call number STOP_AT of those that change files, the program is
 * killed; with STOP_ERROR (an errno) those that need room fail from there on instead, as on a disk that is full. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

static long setting(const char *name) {
    const char *text = getenv(name);
    return text == NULL ? 0 : atol(text);
}

/* Whether the call is to fail. */
static int stops(int needs_room) {
    const long number = ++calls;
    const long error = setting("STOP_ERROR");
    if (setting("STOP_AT") == 0 || number < setting("STOP_AT")) return 0;
    if (error == 0) kill(getpid(), SIGKILL);
    errno = (int)error;
    return needs_room;
}

static int is_file(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CHANGES_PATH(result, name, parameters, arguments, needs_room) \
    result name parameters { return stops(needs_room) ? -1 : NEXT(name) arguments; }
#define CHANGES_FILE(result, name, parameters, arguments, needs_room) \
    result name parameters { return is_file(fd) && stops(needs_room) ? -1 : NEXT(name) arguments; }

CHANGES_PATH(int, mkdir, (const char *path, mode_t mode), (path, mode), 1)
CHANGES_PATH(int, symlink, (const char *target, const char *path), (target, path), 1)
CHANGES_PATH(int, rename, (const char *from, const char *to), (from, to), 1)
CHANGES_PATH(int, linkat, (int from, const char *old, int to, const char *path, int flags), (from, old, to, path, flags), 1)
CHANGES_PATH(int, unlink, (const char *path), (path), 0)
CHANGES_PATH(int, remove, (const char *path), (path), 0)
CHANGES_FILE(int, ftruncate, (int fd, off_t size), (fd, size), 0)
CHANGES_FILE(int, fallocate, (int fd, int mode, off_t offset, off_t size), (fd, mode, offset, size), 1)
CHANGES_FILE(int, fsync, (int fd), (fd), 0)
CHANGES_FILE(int, fdatasync, (int fd), (fd), 0)
CHANGES_FILE(ssize_t, write, (int fd, const void *bytes, size_t size), (fd, bytes, size), 1)
CHANGES_FILE(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count), 1)
CHANGES_FILE(ssize_t, pwrite, (int fd, const void *bytes, size_t size, off_t offset), (fd, bytes, size, offset), 1)

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return (flags & O_CREAT) != 0 && stops(1) ? -1 : NEXT(open)(path, flags, mode);
}
