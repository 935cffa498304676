/* The rendezvous service of the NCCL stand-in; see rendezvous.h. */
#define _GNU_SOURCE
#include "rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEMBERS_AT_MOST 1024

struct meeting {
    struct message key;
    int arrived;
    int sockets[MEMBERS_AT_MOST];
    struct message messages[MEMBERS_AT_MOST];
    struct meeting *next;
};

static struct meeting *meetings;
static struct pollfd polled[MEMBERS_AT_MOST + 1];
static nfds_t polled_count;
static struct sockaddr_in own_address;
static pthread_mutex_t serve_once = PTHREAD_MUTEX_INITIALIZER;
/* Held while answers go out, so that a leaving process does not cut them short. */
static pthread_mutex_t answering = PTHREAD_MUTEX_INITIALIZER;

static int transfer(int socket, void *data, size_t size, int is_send)
{
    char *at = data;

    while (size) {
        ssize_t done = is_send ? send(socket, at, size, MSG_NOSIGNAL)
                               : recv(socket, at, size, 0);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        at += done;
        size -= (size_t)done;
    }
    return 0;
}

int rendezvous_send(int socket, const struct message *message)
{
    struct message copy = *message;

    return transfer(socket, &copy, sizeof(copy), 1);
}

int rendezvous_receive(int socket, struct message *message)
{
    return transfer(socket, message, sizeof(*message), 0);
}

static int is_same(const struct message *a, const struct message *b)
{
    if (a->communicator != b->communicator || a->number != b->number ||
        a->kind != b->kind)
        return 0;
    return a->kind != MEET_PAIR || (a->rank == b->rank && a->peer == b->peer);
}

static struct meeting *meeting_of(const struct message *message)
{
    struct meeting *meeting = meetings;

    while (meeting && !is_same(&meeting->key, message))
        meeting = meeting->next;
    if (meeting)
        return meeting;
    meeting = calloc(1, sizeof(*meeting));
    if (!meeting)
        abort();
    meeting->key = *message;
    meeting->next = meetings;
    meetings = meeting;
    return meeting;
}

/* Members of one colour are ordered by (key, rank in the parent). */
static void answer_split(struct meeting *meeting)
{
    for (int i = 0; i < meeting->arrived; i++) {
        struct message *own = &meeting->messages[i];

        own->child_size = own->child_rank = 0;
        for (int j = 0; j < meeting->arrived; j++) {
            const struct message *other = &meeting->messages[j];

            if (other->color != own->color)
                continue;
            own->child_size++;
            if (other->key < own->key ||
                (other->key == own->key && other->rank < own->rank))
                own->child_rank++;
        }
    }
}

static void dismiss(struct meeting *meeting)
{
    struct meeting **link = &meetings;

    if (meeting->key.kind == MEET_SPLIT)
        answer_split(meeting);
    for (int i = 0; i < meeting->arrived; i++)
        rendezvous_send(meeting->sockets[i], &meeting->messages[i]);
    while (*link != meeting)
        link = &(*link)->next;
    *link = meeting->next;
    free(meeting);
}

static void take(struct pollfd *from)
{
    struct message message;

    if (rendezvous_receive(from->fd, &message)) {
        close(from->fd);
        from->fd = -1;
        return;
    }
    struct meeting *meeting = meeting_of(&message);
    if (meeting->arrived >= MEMBERS_AT_MOST)
        return;
    meeting->sockets[meeting->arrived] = from->fd;
    meeting->messages[meeting->arrived++] = message;
    if (meeting->arrived == message.expected)
        dismiss(meeting);
}

static void add_member(int listener)
{
    int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC), on = 1;
    nfds_t place = 1;

    if (socket < 0)
        return;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    while (place < polled_count && polled[place].fd >= 0)
        place++;
    if (place > MEMBERS_AT_MOST) {
        close(socket);
        return;
    }
    polled[place] = (struct pollfd){.fd = socket, .events = POLLIN};
    if (place == polled_count)
        polled_count++;
}

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        if (poll(polled, polled_count, -1) < 0)
            continue;
        pthread_mutex_lock(&answering);
        for (nfds_t i = polled_count; i-- > 1;)
            if (polled[i].fd >= 0 && polled[i].revents)
                take(&polled[i]);
        if (polled[0].revents)
            add_member(polled[0].fd);
        pthread_mutex_unlock(&answering);
    }
    return NULL;
}

__attribute__((destructor)) static void finish_answers(void)
{
    pthread_mutex_lock(&answering);
}

/* The address others reach us at: NCCL_SOCKET_IFNAME, else the first that is up. */
static struct in_addr reachable_address(void)
{
    const char *wanted = getenv("NCCL_SOCKET_IFNAME");
    struct in_addr found = {.s_addr = htonl(INADDR_LOOPBACK)};
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all))
        return found;
    for (struct ifaddrs *each = all; each; each = each->ifa_next) {
        if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET ||
            !(each->ifa_flags & IFF_UP))
            continue;
        if (wanted ? strcmp(wanted, each->ifa_name) != 0
                   : (each->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        found = ((struct sockaddr_in *)(void *)each->ifa_addr)->sin_addr;
        break;
    }
    freeifaddrs(all);
    return found;
}

static int start_service(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t length = sizeof(any);
    pthread_t thread;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (listener < 0 || bind(listener, (struct sockaddr *)&any, sizeof(any)) ||
        listen(listener, MEMBERS_AT_MOST) ||
        getsockname(listener, (struct sockaddr *)&any, &length))
        return -1;
    polled[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    polled_count = 1;
    if (pthread_create(&thread, NULL, serve, NULL))
        return -1;
    pthread_setname_np(thread, "nccl_root");
    pthread_detach(thread);
    own_address = any;
    own_address.sin_addr = reachable_address();
    return 0;
}

int rendezvous_serve(struct sockaddr_in *address)
{
    int failed = 0;

    pthread_mutex_lock(&serve_once);
    if (!own_address.sin_port)
        failed = start_service();
    pthread_mutex_unlock(&serve_once);
    *address = own_address;
    return failed;
}

int rendezvous_connect(const struct sockaddr_in *address)
{
    int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (connection < 0)
        return -1;
    if (connect(connection, (const struct sockaddr *)address, sizeof(*address))) {
        close(connection);
        return -1;
    }
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return connection;
}
