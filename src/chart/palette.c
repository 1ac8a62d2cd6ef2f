/* viridis and inferno: perceptually uniform colour maps (S. van der Walt and N. Smith, 2015, CC0),
 * as polynomials of degree 7 fitted to them, off by at most 3 (viridis) and 6 (inferno) of 255.
 */
#include "chart/palette.h"

enum { N_TERMS = 8 };

static const double terms[][3][N_TERMS] = {
    [LOCUS_VIRIDIS] = {{0.2566, 1.1618, -14.7894, 76.3146, -217.08, 326.814, -238.181, 66.4996},
                       {0.004, 1.5037, -1.256, 2.4706, -8.5537, 19.0038, -19.0286, 6.7629},
                       {0.3229, 1.9623, -7.804, 24.8852, -65.2504, 110.516, -100.802, 36.3069}},
    [LOCUS_INFERNO] = {{0.0003, 0.1014, 11.6779, -42.0492, 78.0955, -72.6407, 26.0705, -0.2794},
                       {-0.0112, 1.3266, -14.3783, 75.8156, -194.454, 264.834, -180.087, 47.9614},
                       {0.0191, 0.7927, 29.3652, -210.608, 622.119, -942.391, 711.115, -209.78}},
};

struct locus_colour locus_palette_at(enum locus_palette palette, double share)
{
    double x = share > 1 ? 1 : share > 0 ? share : 0;
    unsigned char channels[3];
    for (int c = 0; c < 3; c++) {
        double value = 0;
        for (int i = N_TERMS - 1; i >= 0; i--)
            value = value * x + terms[palette][c][i];
        channels[c] = (unsigned char)(value <= 0 ? 0 : value >= 1 ? 255 : value * 255 + 0.5);
    }
    return (struct locus_colour){channels[0], channels[1], channels[2]};
}

bool locus_colour_is_light(struct locus_colour colour)
{
    return 0.299 * colour.red + 0.587 * colour.green + 0.114 * colour.blue > 140;
}
