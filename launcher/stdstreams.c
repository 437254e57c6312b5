#include "launcher/stdstreams.h"

#include <fcntl.h>
#include <unistd.h>

int stdstreams_open(void)
{
    int fd;

    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) /* the lowest free number: this one */
            return -1;
    return 0;
}
