/* The smallest program with a model in it:
 *     cc hello.c $(pkg-config --cflags --libs tandem) -o hello && ./hello "Tell me a story about a fox" [MODEL] */
#include <stdio.h>
#include <tandem/tandem.h>

static int print(const char* text, size_t bytes, void* user) {
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0 ? 0 : 1;
}

static int fail(void) {
    fprintf(stderr, "hello: %s\n", tandem_error());
    return 1;
}

int main(int argc, char** argv) {
    tandem_model* model = tandem_open(argc > 2 ? argv[2] : NULL, NULL);
    if (model == NULL) return fail();
    tandem_request* request = tandem_request_new(model);
    tandem_close(model); /* the request keeps what it needs */
    if (request == NULL) return fail();

    const char* prompt = argc > 1 ? argv[1] : "Tell me a story about a fox and a lantern";
    int failed = tandem_request_set(request, "max_tokens", "200") < 0 ||
                 tandem_request_message(request, "user", prompt) < 0 ||
                 tandem_request_generate(request, print, NULL) < 0;
    if (failed) {
        fail();
    } else {
        tandem_usage usage = {.size = sizeof(usage)};
        tandem_request_usage(request, &usage);
        printf("\n");
        fprintf(stderr, "[%lld tokens, ended by: %s]\n", (long long)usage.answer_tokens,
                tandem_request_finish(request));
    }
    tandem_request_free(request);
    return failed;
}
