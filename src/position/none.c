/* No position encoding (NoPE): the causal mask alone tells order. Kazemnejad et al., "The Impact of
 * Positional Encoding on Length Generalization in Transformers", arXiv 2305.19466.
 */
#include "position/registry.h"

const struct locus_position_scheme locus_scheme_none = {
    .abi = LOCUS_POSITION_ABI,
    .name = "none",
    .summary = "no position encoding (NoPE): the causal mask alone tells order",
};
