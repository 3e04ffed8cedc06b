/* A module of the name service that tests load: it knows one user, and is unavailable in several ways
   for others. The file that ORTHRUS_TEST_GROUPS_DOWN names makes its groups unavailable. */

#include <errno.h>
#include <grp.h>
#include <nss.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum nss_status _nss_orthrustest_getpwnam_r(const char *name, struct passwd *user, char *buffer, size_t size,
                                            int *error) {
    if (strncmp(name, "unavailable", 11) == 0) {
        *error = ENOENT; /* as libnss-ldapd does */
        return NSS_STATUS_UNAVAIL;
    }
    if (strcmp(name, "silent") == 0) return NSS_STATUS_UNAVAIL;
    if (strcmp(name, "tryagain") == 0) {
        *error = EAGAIN;
        return NSS_STATUS_TRYAGAIN;
    }
    if (strcmp(name, "known") != 0) {
        *error = ENOENT;
        return NSS_STATUS_NOTFOUND;
    }
    if (size < 16) {
        *error = ERANGE;
        return NSS_STATUS_TRYAGAIN;
    }
    memcpy(buffer, "known\0\0x", 9);
    *user = (struct passwd){.pw_name = buffer, .pw_passwd = buffer + 7, .pw_uid = 4711, .pw_gid = 4712};
    user->pw_gecos = user->pw_dir = user->pw_shell = buffer + 6;
    return NSS_STATUS_SUCCESS;
}

enum nss_status _nss_orthrustest_getpwuid_r(uid_t uid, struct passwd *user, char *buffer, size_t size,
                                            int *error) {
    *error = ENOENT;
    return uid >= 4000 && uid < 5000 ? NSS_STATUS_UNAVAIL : NSS_STATUS_NOTFOUND;
}

static int groups_down(void) {
    const char *file = getenv("ORTHRUS_TEST_GROUPS_DOWN");
    return file && access(file, F_OK) == 0;
}

enum nss_status _nss_orthrustest_getgrgid_r(gid_t gid, struct group *group, char *buffer, size_t size,
                                            int *error) {
    *error = ENOENT;
    return groups_down() ? NSS_STATUS_UNAVAIL : NSS_STATUS_NOTFOUND;
}

enum nss_status _nss_orthrustest_initgroups_dyn(const char *user, gid_t group, long *start, long *size,
                                                gid_t **groups, long limit, int *error) {
    *error = ENOENT;
    if (groups_down()) return NSS_STATUS_UNAVAIL;
    if (strcmp(user, "known") != 0 || *start >= *size) return NSS_STATUS_NOTFOUND;
    (*groups)[(*start)++] = 4713;
    return NSS_STATUS_SUCCESS;
}
