/* A disk that fails fsync, and what it would show after a power loss. Preloaded into processes by
 * scripts/servers/failing-disk.sh; the tests are those that name it.
 *
 * DISK_ROOT    the directory that lies on this disk
 * DISK_IMAGE   a directory beside it, on the same file system: what a power loss would leave
 * DISK_TRIGGER while this file exists, fsync fails with EIO
 *
 * It is the worst disk that Linux allows: what a failed fsync was to write is forgotten, and later
 * calls succeed without it. Files are hard links, so that no inode number is used again while the
 * image needs it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *root, *image, *trigger;
static int (*real)(int);

__attribute__((constructor)) static void start(void) {
    root = getenv("DISK_ROOT");
    image = getenv("DISK_IMAGE");
    trigger = getenv("DISK_TRIGGER");
    real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
}

/* The path of what is open, below the root; NULL if it lies elsewhere. */
static const char *below(int fd, char path[4096]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, 4095);
    size_t prefix = root ? strlen(root) : 0;
    if (!image || !trigger || length < (ssize_t)prefix || strncmp(path, root, prefix))
        return NULL;
    path[length] = 0;
    return path[prefix] == 0 || path[prefix] == '/' ? path + prefix : NULL;
}

/* What is noted of an inode: that its bytes are on the disk, or that its name was forgotten. */
static void noted(char out[4096], const char *what, ino_t inode) {
    snprintf(out, 4096, "%s/.%s/%lu", image, what, (unsigned long)inode);
}

static int is_noted(const char *what, ino_t inode) {
    char path[4096];
    noted(path, what, inode);
    return access(path, F_OK) == 0;
}

static void note(const char *what, const char *file, ino_t inode) {
    char path[4096];
    noted(path, what, inode);
    if (link(file, path) && errno != EEXIST)
        perror(path);
}

/* A folder that was removed takes with it what the disk has of it. */
static void vanish(const char *copy) {
    if (unlink(copy) == 0 || errno != EISDIR)
        return;
    DIR *entries = opendir(copy);
    struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        char inside[8192];
        snprintf(inside, sizeof inside, "%s/%s", copy, entry->d_name);
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            vanish(inside);
    }
    if (entries)
        closedir(entries);
    rmdir(copy);
}

static void each_file(const char *folder, const char *kept, int works) {
    DIR *entries = opendir(folder);
    struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        char file[8192], copy[8192], fresh[8192];
        struct stat now, then;
        snprintf(file, sizeof file, "%s/%s", folder, entry->d_name);
        snprintf(copy, sizeof copy, "%s/%s", kept, entry->d_name);
        if (entry->d_name[0] == '.' || lstat(file, &now) || !S_ISREG(now.st_mode))
            continue;
        int same = lstat(copy, &then) == 0 && then.st_ino == now.st_ino;
        if (same || is_noted("forgotten", now.st_ino))
            continue;
        if (!works) {
            note("forgotten", file, now.st_ino);
        } else if (is_noted("synced", now.st_ino)) {
            snprintf(fresh, sizeof fresh, "%s/.fresh-%d", image, (int)getpid());
            unlink(fresh);
            if (link(file, fresh) || rename(fresh, copy))
                perror(copy);
        }
    }
    if (entries)
        closedir(entries);
    /* What was deleted. */
    entries = works ? opendir(kept) : NULL;
    while (entries && (entry = readdir(entries))) {
        char file[8192], copy[8192];
        struct stat now;
        snprintf(file, sizeof file, "%s/%s", folder, entry->d_name);
        snprintf(copy, sizeof copy, "%s/%s", kept, entry->d_name);
        if (entry->d_name[0] != '.' && lstat(file, &now) && errno == ENOENT)
            vanish(copy);
    }
    if (entries)
        closedir(entries);
}

int fsync(int fd) {
    char path[4096], kept[8192];
    struct stat stat;
    const char *rest = below(fd, path);
    if (!rest || fstat(fd, &stat))
        return real(fd);
    int works = access(trigger, F_OK) != 0;
    char lock_path[4096];
    snprintf(lock_path, sizeof lock_path, "%s/.lock", image);
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    flock(lock, LOCK_EX);
    if (S_ISDIR(stat.st_mode)) {
        snprintf(kept, sizeof kept, "%s%s", image, rest);
        for (char *slash = kept + strlen(image); (slash = strchr(slash + 1, '/'));) {
            *slash = 0;
            mkdir(kept, 0700);
            *slash = '/';
        }
        mkdir(kept, 0700);
        each_file(path, kept, works);
    } else if (works) {
        note("synced", path, stat.st_ino);
    }
    close(lock);
    if (works)
        return 0;
    errno = EIO;
    return -1;
}

int fdatasync(int fd) { return fsync(fd); }
