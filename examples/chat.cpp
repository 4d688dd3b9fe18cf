// A conversation at the terminal; Ctrl-C ends an answer, the end of the input the program:
//     chat [MODEL [OPTION=VALUE ...]], as chat gemma3:4b device=vulkan context=4096
#include <atomic>
#include <csignal>
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>
#include <vector>

namespace {

std::atomic<bool> interrupted = false;

void converse(tandem::Model& model) {
    tandem::Request request(model);
    request.set("temperature", 0.7).set("max_tokens", 400);
    std::cerr << "[" << model.name() << " on " << model.device() << ", context " << model.context() << "]\n"
              << model.notes();
    for (std::string line; std::cerr << "> " && std::getline(std::cin, line);) {
        if (line.empty()) continue;
        interrupted = false;
        request.message("user", line);
        const auto to = [](std::ostream& stream) {
            return [&stream](std::string_view piece) {
                stream << piece << std::flush;
                return !interrupted && stream.good();
            };
        };
        request.generate(to(std::cout), to(std::cerr));  // the second: what the model thinks before it answers
        std::cout << '\n';
        if (request.finish() != "stop") std::cerr << "[" << request.finish() << "]\n";
        request.keep();
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGINT, [](int) { interrupted = true; });
    try {
        const std::vector<std::string> options(argv + (argc > 2 ? 2 : argc), argv + argc);
        tandem::Model model(argc > 1 ? argv[1] : "", options);
        converse(model);
    } catch (const std::exception& error) {
        std::cerr << "chat: " << error.what() << '\n';
        return 1;
    }
}
