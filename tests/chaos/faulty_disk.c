/* A disk that refuses once: preloaded into drumbeat's own processes on a node, never into ranks.
 *
 * $FAULTY_DISK/<job> says which call of a job's agents and supervisors fails, counted over all of them: the n-th write,
 * fsync or rename of a file below the gang's folder or in the node's cache; or, where n is NAMED, the first whose
 * words begin with `what`. What failed is written down there. The test reads the same struct.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/types.h>
#include <unistd.h>

#define NAMED -1

struct control {
    int count, nth, error;
    char what[500];
};

static struct control *control;
static char gang[2048], cache[2048];

static int is_ours(void)
{
    char words[4096];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? 0 : read(file, words, sizeof words - 1);
    if (file >= 0)
        close(file);
    for (ssize_t at = 0; at < size; at++)
        if (!words[at])
            words[at] = ' ';
    words[size > 0 ? size : 0] = 0;
    return strstr(words, "drumbeat.node.") != NULL && strstr(words, "drumbeat.node.host") == NULL;
}

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("FAULTY_DISK"), *own = getenv("DRUMBEAT_GANG");
    char path[4096];
    if (!folder || !own || strlen(own) >= sizeof gang - 1 || !is_ours())
        return;
    strcpy(gang, own);
    snprintf(cache, sizeof cache, "%s", getenv("DRUMBEAT_CACHE") ? getenv("DRUMBEAT_CACHE") : gang);
    const char *name = strrchr(gang, '/') ? strrchr(gang, '/') + 1 : gang;
    snprintf(path, sizeof path, "%s/%.*s", folder, (int)strcspn(name, "."), name);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED)
        control = at;
}

static size_t below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) || path[length] != '/' ? 0 : length;
}

static int fails(const char *call, const char *path)
{
    size_t length = below(path, gang) ? below(path, gang) : below(path, cache);
    if (!length)
        return 0;
    char words[sizeof control->what];
    snprintf(words, sizeof words, "%s %s", call, path + length);
    int count = __sync_add_and_fetch(&control->count, 1);
    int named = control->nth == NAMED && !strncmp(words, control->what, strlen(control->what));
    if (!(named ? __sync_bool_compare_and_swap(&control->nth, NAMED, count) : count == control->nth))
        return 0;
    strcpy(control->what, words);
    errno = control->error;
    return 1;
}

static int fails_at(const char *call, int file)
{
    char link[64], path[4096];
    if (!control)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0)
        return 0;
    path[size] = 0;
    return fails(call, path);
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *data, size_t size)
{
    REAL(write);
    return fails_at("write", file) ? -1 : real(file, data, size);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
{
    REAL(pwrite64);
    return fails_at("write", file) ? -1 : real(file, data, size, at);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t size)
{
    REAL(sendfile64);
    return fails_at("write", to) ? -1 : real(to, from, at, size);
}

int fsync(int file)
{
    REAL(fsync);
    return fails_at("fsync", file) ? -1 : real(file);
}

int rename(const char *old, const char *new)
{
    REAL(rename);
    return control && fails("rename", new) ? -1 : real(old, new);
}
