/*
 * Where ranks meet: one small service in the process that made the unique id.
 * A member sends one message when it arrives and gets one back when all have.
 */
#ifndef COLDTRACE_LAB_RENDEZVOUS_H
#define COLDTRACE_LAB_RENDEZVOUS_H

#include <netinet/in.h>
#include <stdint.h>

enum meeting_kind { MEET_INIT, MEET_COLLECTIVE, MEET_PAIR, MEET_SPLIT };

struct message {
    uint64_t communicator; /* members of one communicator say the same number */
    uint64_t number;       /* of the meeting in that communicator */
    uint32_t kind;
    int32_t expected;      /* how many members meet */
    int32_t rank;          /* MEET_PAIR: the sender, said by both sides */
    int32_t peer;          /* MEET_PAIR: the receiver, said by both sides */
    int32_t color, key;    /* MEET_SPLIT */
    int32_t child_size, child_rank; /* answer to MEET_SPLIT */
};

/* Start the service of this process once; its address is written to *address. */
int rendezvous_serve(struct sockaddr_in *address);
int rendezvous_connect(const struct sockaddr_in *address);
int rendezvous_send(int socket, const struct message *message);
int rendezvous_receive(int socket, struct message *message);

#endif
