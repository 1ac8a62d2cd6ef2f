/* UTF-8, strictly: see utf8.h, and locus_utf8_whole in locus.h. */
#include "base/utf8.h"

#include "locus.h"

int locus_utf8_scan(const char *bytes, size_t n_bytes)
{
    unsigned char lead = (unsigned char)bytes[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    /* The second byte's range is what excludes overlong forms, surrogates and what lies past
     * U+10FFFF. */
    unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < length; i++) {
        if (i == n_bytes) return -(int)n_bytes;
        unsigned char byte = (unsigned char)bytes[i];
        if (byte < low || byte > high) return 0;
        low = 0x80;
        high = 0xBF;
    }
    return (int)length;
}

uint32_t locus_utf8_code(const char *bytes, int length)
{
    static const unsigned char lead_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = (uint32_t)((unsigned char)bytes[0] & lead_bits[length]);
    for (int i = 1; i < length; i++)
        code = code << 6 | ((unsigned char)bytes[i] & 0x3F);
    return code;
}

size_t locus_utf8_whole(const char *bytes, size_t n_bytes)
{
    for (size_t back = 1; back <= 3 && back <= n_bytes; back++)
        if (locus_utf8_scan(bytes + n_bytes - back, back) < 0) return n_bytes - back;
    return n_bytes;
}
