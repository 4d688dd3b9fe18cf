#include "cli/command.h"

int main(int argc, char** argv) {
    return tandem::cli::run_program(argc, argv);
}
