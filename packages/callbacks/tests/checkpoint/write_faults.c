/* Makes the k-th call that changes files below one directory fail, or be the last this process makes.
 *
 * Loaded by LD_PRELOAD, so that it stands before the C library for Python and for TensorFlow's own writer;
 * directed through fault_arm() by ctypes. Every call counts, whatever it is, so that a caller who tries
 * k = 1, 2, … until nothing fails any more has been through all of them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static int fail_at, error_code, calls;
static const char *struck;

/* The at-th call below the directory fails with the error code; kills, where that is negative. */
void fault_arm(const char *directory, int at, int code) {
    strncpy(root, directory, sizeof root - 1);
    fail_at = at;
    error_code = code;
    calls = 0;
    struck = "";
}
/* The name of the call that failed; empty if there were not so many. */
const char *fault_struck(void) { return struck; }

static int below(const char *path) {
    return root[0] && path && strncmp(path, root, strlen(root)) == 0;
}

static int below_fd(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Whether this call shall fail. */
static int strikes(const char *name, int concerned) {
    if (!concerned || !fail_at) return 0;
    calls++;
    if (calls != fail_at) return 0;
    if (error_code < 0) kill(getpid(), SIGKILL);
    struck = name;
    errno = error_code;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                  \
    int name(const char *path, int flags, ...) {                                    \
        va_list rest;                                                               \
        va_start(rest, flags);                                                      \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;     \
        va_end(rest);                                                               \
        if (strikes(#name, (flags & (O_CREAT | O_TRUNC)) && below(path))) return -1; \
        return REAL(name)(path, flags, mode);                                       \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                \
    int name(int at, const char *path, int flags, ...) {                            \
        va_list rest;                                                               \
        va_start(rest, flags);                                                      \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;     \
        va_end(rest);                                                               \
        if (strikes(#name, (flags & (O_CREAT | O_TRUNC)) && below(path))) return -1; \
        return REAL(name)(at, path, flags, mode);                                   \
    }
OPENAT(openat)
OPENAT(openat64)

FILE *fopen(const char *path, const char *mode) {
    return strikes("fopen", mode[0] != 'r' && below(path)) ? NULL : REAL(fopen)(path, mode);
}
FILE *fopen64(const char *path, const char *mode) {
    return strikes("fopen64", mode[0] != 'r' && below(path)) ? NULL : REAL(fopen64)(path, mode);
}
size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    return strikes("fwrite", below_fd(fileno(file))) ? 0 : REAL(fwrite)(data, size, count, file);
}
int fflush(FILE *file) {
    return strikes("fflush", file && below_fd(fileno(file))) ? EOF : REAL(fflush)(file);
}
int fclose(FILE *file) {
    /* Also a file that is read has to be closed. */
    int writes = (fcntl(fileno(file), F_GETFL) & O_ACCMODE) != O_RDONLY && below_fd(fileno(file));
    if (strikes("fclose", writes)) {
        REAL(fclose)(file);
        errno = error_code;
        return EOF;
    }
    return REAL(fclose)(file);
}
ssize_t write(int fd, const void *data, size_t size) {
    return strikes("write", below_fd(fd)) ? -1 : REAL(write)(fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return strikes("pwrite", below_fd(fd)) ? -1 : REAL(pwrite)(fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    return strikes("pwrite64", below_fd(fd)) ? -1 : REAL(pwrite64)(fd, data, size, offset);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return strikes("writev", below_fd(fd)) ? -1 : REAL(writev)(fd, parts, count);
}
int ftruncate64(int fd, off64_t size) {
    return strikes("ftruncate64", below_fd(fd)) ? -1 : REAL(ftruncate64)(fd, size);
}
int fsync(int fd) { return strikes("fsync", below_fd(fd)) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return strikes("fdatasync", below_fd(fd)) ? -1 : REAL(fdatasync)(fd); }
int rename(const char *from, const char *to) {
    return strikes("rename", below(to)) ? -1 : REAL(rename)(from, to);
}
int renameat(int from_at, const char *from, int to_at, const char *to) {
    return strikes("renameat", below(to)) ? -1 : REAL(renameat)(from_at, from, to_at, to);
}
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    return strikes("renameat2", below(to)) ? -1 : REAL(renameat2)(from_at, from, to_at, to, flags);
}
int mkdir(const char *path, mode_t mode) {
    return strikes("mkdir", below(path)) ? -1 : REAL(mkdir)(path, mode);
}
int link(const char *from, const char *to) {
    return strikes("link", below(to)) ? -1 : REAL(link)(from, to);
}
int symlink(const char *target, const char *path) {
    return strikes("symlink", below(path)) ? -1 : REAL(symlink)(target, path);
}
int unlink(const char *path) { return strikes("unlink", below(path)) ? -1 : REAL(unlink)(path); }
int rmdir(const char *path) { return strikes("rmdir", below(path)) ? -1 : REAL(rmdir)(path); }
int unlinkat(int at, const char *path, int flags) {
    return strikes("unlinkat", below(path) || below_fd(at)) ? -1 : REAL(unlinkat)(at, path, flags);
}
int chmod(const char *path, mode_t mode) {
    return strikes("chmod", below(path)) ? -1 : REAL(chmod)(path, mode);
}
