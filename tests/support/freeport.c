/* freeport - print a TCP port of 127.0.0.1 that nobody uses now. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in at  = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t          len = sizeof at;
    int                fd  = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *) &at, sizeof at) < 0 || getsockname(fd, (struct sockaddr *) &at, &len) < 0) {
        perror("freeport");
        return 1;
    }
    (void) printf("%u\n", ntohs(at.sin_port));
    return 0;
}
