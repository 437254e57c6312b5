/* listener - a server on a free port of 127.0.0.1 that is nobody's peer; prints the port.
 *
 *   listener parrot    sends back what it is sent
 *   listener mute      reads, and never says anything
 *   listener reset     closes every connection as soon as it is there
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_PEERS = 64 };

static void serve(int fd, const char *how, int *ret_is_over)
{
    char    bytes[4096];
    ssize_t n = read(fd, bytes, sizeof bytes);

    *ret_is_over = n <= 0 || (strcmp(how, "parrot") == 0 && write(fd, bytes, (size_t) n) < 0);
}

int main(int argc, char **argv)
{
    struct sockaddr_in at  = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t          len = sizeof at;
    struct pollfd      fds[1 + MAX_PEERS] = { { .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .events = POLLIN } };
    nfds_t             n = 1, i;

    if (argc != 2)
        return 2;
    if (fds[0].fd < 0 || bind(fds[0].fd, (struct sockaddr *) &at, sizeof at) < 0 || listen(fds[0].fd, MAX_PEERS) < 0 ||
        getsockname(fds[0].fd, (struct sockaddr *) &at, &len) < 0) {
        perror("listener");
        return 1;
    }
    (void) printf("%u\n", ntohs(at.sin_port));
    (void) fflush(stdout);
    while (poll(fds, n, -1) > 0) {
        for (i = n - 1; i > 0; i--) {
            int is_over = 0;

            if (fds[i].revents)
                serve(fds[i].fd, argv[1], &is_over);
            if (is_over) {
                (void) close(fds[i].fd);
                fds[i] = fds[--n];
            }
        }
        if (fds[0].revents) {
            int fd = accept4(fds[0].fd, NULL, NULL, SOCK_CLOEXEC);

            if (fd >= 0 && (n > MAX_PEERS || strcmp(argv[1], "reset") == 0))
                (void) close(fd);
            else if (fd >= 0)
                fds[n++] = (struct pollfd) { .fd = fd, .events = POLLIN };
        }
    }
    return 1;
}
