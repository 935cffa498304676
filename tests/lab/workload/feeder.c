/* Brings input at a pace its reader sets: a storage that is sometimes slow. */
#include <stdint.h>
#include <unistd.h>

#define BATCH_BYTES 4096

void lab_sleep(int64_t duration_ns);

int main(void)
{
    static const char batch[BATCH_BYTES];
    int64_t duration_ns;

    while (read(0, &duration_ns, sizeof(duration_ns)) == sizeof(duration_ns)) {
        lab_sleep(duration_ns);
        if (write(1, batch, sizeof(batch)) != sizeof(batch))
            return 1;
    }
    return 0;
}
