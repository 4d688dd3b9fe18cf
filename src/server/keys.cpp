#include "server/keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace tandem::server {

namespace {

constexpr size_t kMostFileBytes = size_t{1} << 20;
constexpr size_t kLeastKeyBytes = 16;  // fewer can be guessed
constexpr size_t kMostKeyBytes = 256;

std::array<uint8_t, 32> digest_of(std::string_view secret) {
    std::array<uint8_t, 32> digest = {};
    SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), digest.data());
    return digest;
}

// Takes the next word off a line; empty at its end.
std::string_view take_word(std::string_view& line) {
    constexpr std::string_view kBlanks = " \t\r";
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
    line.remove_prefix(word.size());
    return word;
}

Status read_scopes(std::string_view scopes, Key& key) {
    while (!scopes.empty()) {
        const std::string_view scope = scopes.substr(0, scopes.find(','));
        scopes.remove_prefix(std::min(scope.size() + 1, scopes.size()));
        if (scope == "use") {
            key.may_use = true;
        } else if (scope == "admin") {
            key.may_administrate = true;
        } else {
            return fail("'{}' is no scope: write use, admin or use,admin", scope);
        }
    }
    return Ok{};
}

Result<Key> read_key(std::string_view line, int number) {
    const std::string_view secret = take_word(line);
    if (secret.size() < kLeastKeyBytes || secret.size() > kMostKeyBytes) {
        return fail("a key of {} characters: it must have {} to {}", secret.size(), kLeastKeyBytes, kMostKeyBytes);
    }
    if (!std::all_of(secret.begin(), secret.end(), [](char c) { return c > ' ' && c <= '~'; })) {
        return fail("a key has a character that no HTTP header can carry: use letters, digits and punctuation");
    }
    Key key;
    const std::string_view scopes = take_word(line);
    if (scopes.empty()) return fail("a key without a scope: write use, admin or use,admin after it");
    TRY(read_scopes(scopes, key));
    key.name = take_word(line);
    if (key.name.empty()) key.name = fmt::format("line-{}", number);
    if (!take_word(line).empty()) return fail("more than a key, its scopes and a name");
    key.digest = digest_of(secret);
    return key;
}

}  // namespace

Result<Keys> Keys::parse(std::string_view text, std::string_view source) {
    Keys keys;
    for (int number = 1; !text.empty(); ++number) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        std::string_view rest = line;
        const std::string_view first = take_word(rest);
        if (first.empty() || first.starts_with('#')) continue;
        Result<Key> key = read_key(line, number);
        if (!key) return fail("{}, line {}: {}", source, number, key.error().message);
        const bool known = std::any_of(keys.keys_.begin(), keys.keys_.end(), [&](const Key& other) {
            return other.digest == key->digest || other.name == key->name;
        });
        if (known) return fail("{}, line {}: the key or its name '{}' is there twice", source, number, key->name);
        keys.keys_.push_back(*std::move(key));
    }
    if (keys.empty()) return fail("{}: no keys in it: write lines of `key scope[,scope] [name]`", source);
    return keys;
}

Result<Keys> Keys::load(const std::filesystem::path& path) {
    struct stat info = {};
    if (stat(path.c_str(), &info) != 0) return fail("{}: {}", path.string(), std::strerror(errno));
    if (!S_ISREG(info.st_mode)) return fail("{}: a key file must be a regular file", path.string());
    // Services and containers get what root keeps through their group.
    const mode_t lent = info.st_uid == 0 && geteuid() != 0 ? S_IRGRP : 0;
    if ((info.st_mode & (S_IRWXG | S_IRWXO) & ~lent) != 0) {
        return fail("{}: others may read or change the keys in it: chmod 600 {}", path.string(), path.string());
    }
    const std::string text = TRY(read_text_file(path, kMostFileBytes));
    return parse(text, path.string());
}

const Key* Keys::find(std::string_view secret) const {
    const std::array<uint8_t, 32> digest = digest_of(secret);
    const Key* found = nullptr;
    for (const Key& key : keys_) {  // all of them, so that the time does not tell which
        if (CRYPTO_memcmp(key.digest.data(), digest.data(), digest.size()) == 0) found = &key;
    }
    return found;
}

}  // namespace tandem::server
