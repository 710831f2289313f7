extern "C" {
#include <sha256.h>
}

#include "generator/emit.h"

namespace attune {

std::string sha256_hex(std::string_view bytes) {
    char hex[SHA256_DIGEST_STRING_LENGTH];
    SHA256Data(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), hex);
    return hex;
}

}  // namespace attune
