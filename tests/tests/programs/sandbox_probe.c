/* A module of the name service that tests load into the server: a user named "try-WHAT" makes the process that looks it
   up try WHAT. The user's number is 10000 and the error number, 10000 alone if it succeeds. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <nss.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

static long tcp(int (*use)(int, const struct sockaddr *, socklen_t), int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    long result = use(fd, (struct sockaddr *)&address, sizeof address);
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

static long abstract_socket(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0orthrus-sandbox-test"};
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + strlen("orthrus-sandbox-test") + 1;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, length);
}

static long code(int change) {
    int protection = change ? PROT_READ | PROT_WRITE : PROT_READ | PROT_WRITE | PROT_EXEC;
    void *page = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return -1;
    return change ? mprotect(page, 4096, PROT_READ | PROT_EXEC) : 0;
}

static long try(const char *what) {
    static char *none[] = {NULL};
    if (!strcmp(what, "nothing")) return 0;
    if (!strcmp(what, "execve")) return execve("/bin/true", none, none);
    if (!strcmp(what, "execveat")) return syscall(SYS_execveat, AT_FDCWD, "/bin/true", none, none, 0);
    if (!strcmp(what, "fork")) {
        /* A child would be a second server. */
        long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) _exit(0);
        return child;
    }
    if (!strcmp(what, "vfork")) return syscall(SYS_clone, CLONE_VM | CLONE_PARENT | CLONE_FILES | CLONE_UNTRACED, 0, 0, 0, 0);
    if (!strcmp(what, "ptrace")) return ptrace(PTRACE_ATTACH, getppid(), 0, 0);
    if (!strcmp(what, "process_vm_readv")) return syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0);
    if (!strcmp(what, "mount")) return mount("none", "/mnt", "tmpfs", 0, "");
    if (!strcmp(what, "umount")) return umount("/mnt");
    if (!strcmp(what, "pivot_root")) return syscall(SYS_pivot_root, "/", "/");
    if (!strcmp(what, "chroot")) return chroot("/");
    if (!strcmp(what, "init_module")) return syscall(SYS_init_module, "", 0, "");
    if (!strcmp(what, "finit_module")) return syscall(SYS_finit_module, 0, "", 0);
    if (!strcmp(what, "kexec_load")) return syscall(SYS_kexec_load, 0, 0, NULL, 0);
    if (!strcmp(what, "bpf")) return syscall(SYS_bpf, 0, NULL, 0);
    if (!strcmp(what, "perf_event_open")) return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);
    if (!strcmp(what, "setns")) return setns(0, 0);
    if (!strcmp(what, "unshare")) return unshare(CLONE_NEWUSER);
    if (!strcmp(what, "keyctl")) return syscall(SYS_keyctl, 0, -1, 1);
    if (!strcmp(what, "userfaultfd")) return syscall(SYS_userfaultfd, 0);
    if (!strcmp(what, "io_uring_setup")) return syscall(SYS_io_uring_setup, 1, NULL);
    if (!strcmp(what, "personality")) return syscall(SYS_personality, 0xffffffff);
    if (!strcmp(what, "reboot")) return syscall(SYS_reboot, 0, 0, 0, NULL);
    if (!strcmp(what, "settimeofday")) return syscall(SYS_settimeofday, NULL, NULL);
    if (!strcmp(what, "sethostname")) return sethostname("x", 1);
    if (!strcmp(what, "capset")) return syscall(SYS_capset, NULL, NULL);
    if (!strcmp(what, "privileges")) return prctl(PR_SET_DUMPABLE, 0);
    if (!strcmp(what, "kill")) return kill(getppid(), 0);
    if (!strcmp(what, "tgkill")) return syscall(SYS_tgkill, getppid(), getppid(), 0);
    if (!strcmp(what, "raw")) return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    if (!strcmp(what, "packet")) return socket(AF_PACKET, SOCK_DGRAM, 0);
    if (!strcmp(what, "netfilter")) return socket(AF_NETLINK, SOCK_RAW, 12);
    if (!strcmp(what, "vsock")) return socket(AF_VSOCK, SOCK_STREAM, 0);
    if (!strcmp(what, "terminal")) return syscall(SYS_ioctl, 0, 0x5412, "x");
    if (!strcmp(what, "device")) return mknod("/tmp/orthrus-sandbox-device", S_IFCHR | 0600, makedev(1, 3));
    if (!strcmp(what, "code")) return code(0);
    if (!strcmp(what, "changed-code")) return code(1);
    if (!strcmp(what, "bind")) return tcp(bind, 0);
    if (!strcmp(what, "connect")) return tcp(connect, 22);
    if (!strcmp(what, "connect-ldap")) return tcp(connect, 389);
    if (!strcmp(what, "abstract")) return abstract_socket();
    errno = EINVAL;
    return -1;
}

enum nss_status _nss_orthrusprobe_getpwnam_r(const char *name, struct passwd *user, char *buffer, size_t size,
                                             int *error) {
    if (strncmp(name, "try-", 4) != 0 || size < 8) {
        *error = ENOENT;
        return NSS_STATUS_NOTFOUND;
    }
    errno = 0;
    int failed = try(name + 4) < 0 ? errno : 0;
    memcpy(buffer, "x", 2);
    *user = (struct passwd){.pw_name = buffer, .pw_passwd = buffer, .pw_uid = 10000 + failed, .pw_gid = 10000};
    user->pw_gecos = user->pw_dir = user->pw_shell = buffer;
    return NSS_STATUS_SUCCESS;
}
