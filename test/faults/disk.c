/*
 * A disk that loses its power and makes errors, between a process and libc (LD_PRELOAD), for one folder.
 *
 * What it writes down in DISK_STATE/journal is enough to make the folder what a power loss would leave of it; see
 * disk.ts, which does that. A power loss is taken to be this:
 *
 *   - Of a file there is what it held at its last fsync or fdatasync. What was appended after that may be missing,
 *     wholly or in part; what was overwritten may be either the old or the new.
 *   - A file's name is there once the file itself was synced, or the directory. POSIX promises only the latter;
 *     ext4, XFS and btrfs all keep a file's name with the file, and LevelDB relies on it for every new log.
 *   - A rename or a deletion that neither a sync of that file nor one of the directory covers did not happen.
 *     (On ext4 and XFS any later sync would cover it: their journal keeps its order. disk.ts can do both.)
 *   - Directories are there once they were made: the folder is the test's, not the store's.
 *
 * LevelDB writes through stdio, and glibc's stdio calls write(2) where nobody can step in. So a stream that writes
 * to the folder is made from a cookie here, with the buffer size that it would have had; `fileno` knows the
 * descriptor behind it. What goes in place by other ways than write, pwrite, truncation and open (mmap, pwritev)
 * would go unseen: it ends the process in plain words. io_uring must be off (UV_USE_IO_URING=0).
 *
 *   DISK_FOLDER   the folder's real path
 *   DISK_STATE    a folder of the test's on the same file system, with an empty `kept` and a `control` of 4,096 bytes
 *   DISK_NO_SYNC  fsync and fdatasync of files whose names end so are neither done nor noted, and succeed
 *
 * The file `control` says what fails, as one line that the test writes at once:
 *
 *   <number> <error> <calls> <times> <after> <name>
 *
 * A new number begins anew. Calls: w writes, o opening for writing, renaming, deleting, truncating, s syncing.
 * So many times, 0 for as long as it says so; for writes, after so many more bytes were taken. The error KILL is
 * none: it ends the process before such a call is done, after so many of them were. Of files whose names begin so
 * alone, unless it is a dash.
 *
 * The journal, a line an event, in order (ids name files, whatever they are called):
 *
 *   k <id> <bytes> <name>   there before, with so much in it, all of it durable
 *   c <id> <name>           made
 *   r <id> <from> / <to>    renamed (names hold no blanks); what was there under that name is in kept/<its id>
 *   u <id> <name>           deleted; its contents are in kept/<id>
 *   p <id>                  overwritten; what it held at its last sync is in kept/<id>.before
 *   b <n> <id> <bytes>      a sync of a file that holds so much began
 *   d <n> <name>            a sync of a directory began
 *   e <n>                   that sync ended well
 *   x <id>                  a sync of it failed: what it held since the last one is lost for good, whatever a later
 *                           sync says, as the kernel forgets what it could not write
 *   ! <error> <call> <name> an error was made
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

struct file {
  long id;
  dev_t dev;
  ino_t ino;
  /* What a power loss leaves of it; -1: not even the name. */
  off_t synced;
  int overwritten;
  int lost;
  char name[256];
  /* In-place writes and syncs of one file do not overlap, so that each write is before a sync or after it. */
  pthread_mutex_t turn;
  struct file *next;
};

enum { buckets = 4096 };

static char folder[4096];
static size_t folder_length;
static char state[4096];
static const char *no_sync = "";
static int journal = -1;
static const char *control;
/* By inode: not by descriptor, which libuv closes by a system call that nobody can see. */
static struct file *files[buckets];
static long last_id;
static long last_sync;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void die(const char *what, const char *name) {
  fprintf(stderr, "disk.c: %s: %s\n", what, name);
  _exit(97);
}

__attribute__((constructor)) static void begin(void) {
  const char *wanted = getenv("DISK_FOLDER");
  const char *where = getenv("DISK_STATE");
  /* Whoever this process starts has a disk without faults. */
  unsetenv("LD_PRELOAD");
  if (wanted == NULL || where == NULL) return;
  if (getenv("DISK_NO_SYNC") != NULL) no_sync = getenv("DISK_NO_SYNC");
  char path[4200];
  snprintf(state, sizeof state, "%s", where);
  snprintf(path, sizeof path, "%s/journal", state);
  journal = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (journal < 0) die("no journal", path);
  snprintf(path, sizeof path, "%s/control", state);
  int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die("no control", path);
  control = REAL(mmap)(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  if (control == MAP_FAILED) die("no control", path);
  syscall(SYS_close, fd);
  snprintf(folder, sizeof folder, "%s", wanted);
  folder_length = strlen(folder);
}

static void note(const char *format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (syscall(SYS_write, journal, line, length) != length) die("the journal takes nothing", line);
}

/* The name within the folder, "" for the folder itself; NULL for what is elsewhere. */
static const char *within(const char *path) {
  if (folder_length == 0 || path == NULL || strncmp(path, folder, folder_length) != 0) return NULL;
  if (path[folder_length] == 0) return "";
  return path[folder_length] == '/' ? path + folder_length + 1 : NULL;
}

/* ---- errors on demand ---- */

static const struct {
  const char *name;
  int number;
} errors[] = {{"EROFS", EROFS}, {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"KILL", -1}};

static long fault_number;
static long faults_made;
/* Bytes, and for KILL calls. */
static long taken;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;

struct fault {
  int number;
  char name[16];
  char calls[16];
  long times;
  long after;
  char begins[64];
};

/* With fault_lock held. What the test asks for now of this file; number 0 for nothing. */
static struct fault asked(const char *of) {
  struct fault fault = {0};
  long number = 0;
  char line[128];
  memcpy(line, control, sizeof line - 1);
  line[sizeof line - 1] = 0;
  if (sscanf(line, "%ld %15s %15s %ld %ld %63s", &number, fault.name, fault.calls, &fault.times, &fault.after,
             fault.begins) != 6) {
    number = 0;
  }
  if (number != fault_number) {
    fault_number = number;
    faults_made = 0;
    taken = 0;
  }
  if (number == 0 || (fault.times > 0 && faults_made >= fault.times)) return (struct fault){0};
  int is_any = strcmp(fault.begins, "-") == 0;
  if (!is_any && strncmp(of, fault.begins, strlen(fault.begins)) != 0) return (struct fault){0};
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i += 1) {
    if (strcmp(errors[i].name, fault.name) == 0) fault.number = errors[i].number;
  }
  return fault;
}

/* How many of so many bytes go through; -1 with errno for none. For other calls than writes, of one. */
static ssize_t admit(char call, size_t bytes, const char *name) {
  ssize_t admitted = bytes;
  pthread_mutex_lock(&fault_lock);
  struct fault fault = asked(name);
  if (fault.number < 0 && strchr(fault.calls, call) != NULL) {
    while (taken == fault.after) kill(getpid(), SIGKILL);
    taken += 1;
  } else if (fault.number != 0 && strchr(fault.calls, call) != NULL) {
    long left = call == 'w' ? fault.after - taken : 0;
    if (left < (long)bytes) admitted = left > 0 ? left : -1;
    if (admitted > 0) taken += admitted;
    if (admitted < 0) {
      faults_made += 1;
      note("! %s %c %s\n", fault.name, call, name);
      errno = fault.number;
    }
  }
  pthread_mutex_unlock(&fault_lock);
  return admitted;
}

/* ---- what is durable ---- */

static struct file *find(const struct stat *found) {
  struct file *file = __atomic_load_n(&files[found->st_ino % buckets], __ATOMIC_ACQUIRE);
  while (file != NULL && (file->ino != found->st_ino || file->dev != found->st_dev)) file = file->next;
  return file;
}

/* The file of ours behind a descriptor, or NULL. */
static struct file *behind(int fd) {
  struct stat found;
  if (folder_length == 0) return NULL;
  int error = errno;
  struct file *file = fstat(fd, &found) == 0 && S_ISREG(found.st_mode) ? find(&found) : NULL;
  errno = error;
  return file;
}

/* With lock held. */
static struct file *known(const struct stat *found, const char *name, int was_made) {
  struct file *file = find(found);
  if (file != NULL) return file;
  file = calloc(1, sizeof *file);
  file->id = ++last_id;
  file->dev = found->st_dev;
  file->ino = found->st_ino;
  file->synced = was_made ? -1 : found->st_size;
  snprintf(file->name, sizeof file->name, "%s", name);
  pthread_mutex_init(&file->turn, NULL);
  file->next = files[file->ino % buckets];
  __atomic_store_n(&files[file->ino % buckets], file, __ATOMIC_RELEASE);
  if (was_made) note("c %ld %s\n", file->id, name);
  else note("k %ld %lld %s\n", file->id, (long long)found->st_size, name);
  return file;
}

/* With lock held: a regular file under this name, or NULL. */
static struct file *named(const char *path, const char *name) {
  struct stat found;
  if (lstat(path, &found) != 0 || !S_ISREG(found.st_mode)) return NULL;
  return known(&found, name, 0);
}

/* With the file's turn held, before it is overwritten: keeps what it held at its last sync. */
static void keep_before(struct file *file, const char *path) {
  if (file->overwritten || file->synced <= 0) return;
  char before[4200];
  char *bytes = malloc(file->synced);
  snprintf(before, sizeof before, "%s/kept/%ld.before", state, file->id);
  int from = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  int to = syscall(SYS_openat, AT_FDCWD, before, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (from < 0 || to < 0 || pread(from, bytes, file->synced, 0) != file->synced ||
      syscall(SYS_write, to, bytes, file->synced) != file->synced) {
    die("what was overwritten cannot be kept", file->name);
  }
  syscall(SYS_close, from);
  syscall(SYS_close, to);
  free(bytes);
  file->overwritten = 1;
  note("p %ld\n", file->id);
}

static void keep_before_fd(struct file *file, int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  keep_before(file, path);
}

/* With lock held: what loses its name stays until the test has seen it, and its inode is not given to another. */
static void keep(const struct file *file, const char *path) {
  char kept[4200];
  snprintf(kept, sizeof kept, "%s/kept/%ld", state, file->id);
  if (link(path, kept) != 0 && errno != EEXIST) die("what is deleted cannot be kept", path);
}

/* ---- opening ---- */

static int open_within(const char *path, const char *name, int flags, mode_t mode) {
  int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
  if (writes && admit('o', 1, name) < 0) return -1;
  pthread_mutex_lock(&lock);
  struct stat found;
  int was_there = lstat(path, &found) == 0;
  if (was_there && (flags & O_TRUNC) && S_ISREG(found.st_mode)) {
    struct file *file = known(&found, name, 0);
    pthread_mutex_lock(&file->turn);
    keep_before(file, path);
    pthread_mutex_unlock(&file->turn);
  }
  int fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  int error = errno;
  if (fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) known(&found, name, !was_there);
  pthread_mutex_unlock(&lock);
  errno = error;
  return fd;
}

static int open_anywhere(const char *path, int flags, mode_t mode) {
  const char *name = within(path);
  if (name != NULL) return open_within(path, name, flags, mode);
  return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define MODE(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | __O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *path, int flags, ...) {
  MODE(flags)
  return open_anywhere(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  MODE(flags)
  return open_anywhere(path, flags | O_LARGEFILE, mode);
}

int openat(int directory, const char *path, int flags, ...) {
  MODE(flags)
  if (directory == AT_FDCWD || path[0] == '/') return open_anywhere(path, flags, mode);
  return syscall(SYS_openat, directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
  MODE(flags)
  return openat(directory, path, flags | O_LARGEFILE, mode);
}

/* ---- writing ---- */

static ssize_t write_at(struct file *file, int fd, const void *bytes, size_t count, off_t at) {
  ssize_t admitted = admit('w', count, file->name);
  if (admitted < 0) return -1;
  int in_place = at >= 0 ? at < file->synced : 0;
  if (at < 0 && (fcntl(fd, F_GETFL) & O_APPEND) == 0) in_place = lseek(fd, 0, SEEK_CUR) < file->synced;
  if (in_place) {
    pthread_mutex_lock(&file->turn);
    keep_before_fd(file, fd);
  }
  ssize_t written =
      at >= 0 ? syscall(SYS_pwrite64, fd, bytes, admitted, at) : syscall(SYS_write, fd, bytes, admitted);
  if (in_place) pthread_mutex_unlock(&file->turn);
  return written;
}

ssize_t write(int fd, const void *bytes, size_t count) {
  struct file *file = behind(fd);
  return file == NULL ? syscall(SYS_write, fd, bytes, count) : write_at(file, fd, bytes, count, -1);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
  struct file *file = behind(fd);
  return file == NULL ? syscall(SYS_pwrite64, fd, bytes, count, at) : write_at(file, fd, bytes, count, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { return pwrite64(fd, bytes, count, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (behind(fd) != NULL) die("writev is not foreseen", behind(fd)->name);
  return syscall(SYS_writev, fd, parts, count);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
  if (behind(fd) != NULL) die("pwritev is not foreseen", behind(fd)->name);
  return REAL(pwritev64)(fd, parts, count, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return pwritev64(fd, parts, count, at); }

void *mmap64(void *where, size_t length, int protection, int flags, int fd, off64_t at) {
  if ((protection & PROT_WRITE) && (flags & MAP_SHARED) && behind(fd) != NULL) {
    die("a shared writable mapping is not foreseen", behind(fd)->name);
  }
  return (void *)syscall(SYS_mmap, where, length, protection, flags, fd, at);
}

void *mmap(void *where, size_t length, int protection, int flags, int fd, off_t at) {
  return mmap64(where, length, protection, flags, fd, at);
}

int ftruncate64(int fd, off64_t length) {
  struct file *file = behind(fd);
  if (file == NULL) return syscall(SYS_ftruncate, fd, length);
  if (admit('o', 1, file->name) < 0) return -1;
  pthread_mutex_lock(&file->turn);
  if (length < file->synced) keep_before_fd(file, fd);
  int done = syscall(SYS_ftruncate, fd, length);
  pthread_mutex_unlock(&file->turn);
  return done;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int truncate64(const char *path, off64_t length) {
  if (within(path) != NULL) die("truncate is not foreseen", path);
  return syscall(SYS_truncate, path, length);
}

int truncate(const char *path, off_t length) { return truncate64(path, length); }

/* ---- syncing ---- */

static int ends_with(const char *name, const char *end) {
  size_t length = strlen(name);
  size_t wanted = strlen(end);
  return wanted > 0 && length >= wanted && strcmp(name + length - wanted, end) == 0;
}

static int sync_directory(int fd, const char *name, long call) {
  if (admit('s', 1, name[0] == 0 ? "." : name) < 0) return -1;
  long number = __atomic_add_fetch(&last_sync, 1, __ATOMIC_RELAXED);
  note("d %ld %s\n", number, name);
  if (syscall(call, fd) != 0) return -1;
  note("e %ld\n", number);
  return 0;
}

static int sync_file(struct file *file, int fd, long call) {
  if (ends_with(file->name, no_sync)) return 0;
  if (admit('s', 1, file->name) < 0) {
    int error = errno;
    file->lost = 1;
    note("x %ld\n", file->id);
    errno = error;
    return -1;
  }
  pthread_mutex_lock(&file->turn);
  struct stat found;
  fstat(fd, &found);
  long number = __atomic_add_fetch(&last_sync, 1, __ATOMIC_RELAXED);
  if (!file->lost) note("b %ld %ld %lld\n", number, file->id, (long long)found.st_size);
  int done = syscall(call, fd);
  if (done == 0 && !file->lost) {
    note("e %ld\n", number);
    file->synced = found.st_size;
    file->overwritten = 0;
  }
  pthread_mutex_unlock(&file->turn);
  return done;
}

static int sync_any(int fd, long call) {
  struct stat found;
  char link[64];
  char path[4200];
  if (folder_length == 0 || fstat(fd, &found) != 0) return syscall(call, fd);
  if (S_ISREG(found.st_mode) && find(&found) != NULL) return sync_file(find(&found), fd, call);
  if (!S_ISDIR(found.st_mode)) return syscall(call, fd);
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) die("a directory without a name", link);
  path[length] = 0;
  return within(path) == NULL ? syscall(call, fd) : sync_directory(fd, within(path), call);
}

int fsync(int fd) { return sync_any(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_any(fd, SYS_fdatasync); }

/* ---- names ---- */

int rename(const char *from, const char *to) {
  const char *old_name = within(from);
  const char *new_name = within(to);
  if (old_name == NULL && new_name == NULL) return REAL(rename)(from, to);
  if (old_name == NULL || new_name == NULL) die("a rename into the folder or out of it is not foreseen", to);
  if (admit('o', 1, new_name) < 0) return -1;
  pthread_mutex_lock(&lock);
  struct file *file = named(from, old_name);
  struct file *replaced = named(to, new_name);
  if (replaced != NULL) keep(replaced, to);
  int done = REAL(rename)(from, to);
  int error = errno;
  if (done == 0 && file != NULL) {
    snprintf(file->name, sizeof file->name, "%s", new_name);
    note("r %ld %s / %s\n", file->id, old_name, new_name);
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int unlink(const char *path) {
  const char *name = within(path);
  if (name == NULL) return REAL(unlink)(path);
  if (admit('o', 1, name) < 0) return -1;
  pthread_mutex_lock(&lock);
  struct file *file = named(path, name);
  if (file != NULL) keep(file, path);
  int done = REAL(unlink)(path);
  int error = errno;
  if (done == 0 && file != NULL) note("u %ld %s\n", file->id, name);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

/* A disk that was found full says so when it is asked. */
int statfs64(const char *path, struct statfs64 *room) {
  int done = syscall(SYS_statfs, path, room);
  if (done != 0 || within(path) == NULL) return done;
  pthread_mutex_lock(&fault_lock);
  struct fault fault = asked(within(path));
  if (fault.number == ENOSPC && faults_made > 0) room->f_bavail = 0;
  pthread_mutex_unlock(&fault_lock);
  return 0;
}

int statfs(const char *path, struct statfs *room) { return statfs64(path, (struct statfs64 *)room); }

/* ---- stdio ---- */

struct stream {
  FILE *stream;
  int fd;
  struct stream *next;
};

static struct stream *streams;

/* As glibc writes: until all is written or one write fails, which is then shorter than asked for. */
static ssize_t stream_write(void *cookie, const char *bytes, size_t count) {
  struct stream *own = cookie;
  size_t written = 0;
  while (written < count) {
    ssize_t step = write(own->fd, bytes + written, count - written);
    if (step < 0) break;
    written += step;
  }
  return written;
}

static int stream_close(void *cookie) {
  struct stream *own = cookie;
  pthread_mutex_lock(&lock);
  for (struct stream **at = &streams; *at != NULL; at = &(*at)->next) {
    if (*at != own) continue;
    *at = own->next;
    break;
  }
  pthread_mutex_unlock(&lock);
  int done = syscall(SYS_close, own->fd);
  free(own);
  return done;
}

static FILE *open_stream(const char *path, const char *mode) {
  int flags = mode[0] == 'w' ? O_TRUNC : O_APPEND;
  if (mode[0] == 'r' || strchr(mode, '+') != NULL) die("a stream for reading and writing is not foreseen", path);
  int fd = open_within(path, within(path), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
  if (fd < 0) return NULL;
  struct stream *own = calloc(1, sizeof *own);
  cookie_io_functions_t calls = {.write = stream_write, .close = stream_close};
  own->fd = fd;
  own->stream = fopencookie(own, mode, calls);
  setvbuf(own->stream, NULL, _IOFBF, 4096);
  pthread_mutex_lock(&lock);
  own->next = streams;
  streams = own;
  pthread_mutex_unlock(&lock);
  return own->stream;
}

FILE *fopen64(const char *path, const char *mode) {
  int reads_only = mode[0] == 'r' && strchr(mode, '+') == NULL;
  return within(path) == NULL || reads_only ? REAL(fopen64)(path, mode) : open_stream(path, mode);
}

FILE *fopen(const char *path, const char *mode) { return fopen64(path, mode); }

int fileno(FILE *stream) {
  int fd = -1;
  pthread_mutex_lock(&lock);
  for (struct stream *at = streams; at != NULL; at = at->next) {
    if (at->stream == stream) fd = at->fd;
  }
  pthread_mutex_unlock(&lock);
  return fd >= 0 ? fd : REAL(fileno)(stream);
}
