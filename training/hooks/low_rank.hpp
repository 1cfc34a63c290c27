// SPDX-License-Identifier: Apache-2.0
// Matrices of low rank: M, n x m, as the sum over k of (row k of P) x (row k of Q).
//
// All ranks compute this from the same P and Q and must get the same bits. So nothing here goes
// through the products of math/, which differ with the processor and the BLAS.
#pragma once
#include <cstddef>
#include <span>

namespace training {

/// Makes the rows of `p` orthonormal, one after another: modified Gram-Schmidt, each row against
/// the earlier ones twice (Giraud et al. 2005, "The loss of orthogonality in the Gram-Schmidt
/// process", Comput. Math. Appl. 50(7), section 4: twice is enough). A row that the earlier ones
/// span, to rounding, becomes 0.
void orthonormalise(std::size_t rank, std::size_t n, float* p);

/// m = P^T Q, from p[rank x n] and q[rank x columns].
void low_rank_product(std::size_t rank, std::size_t n, std::size_t columns, const float* p,
                      const float* q, float* m);
/// m -= P^T Q.
void subtract_low_rank(std::size_t rank, std::size_t n, std::size_t columns, const float* p,
                       const float* q, float* m);

}  // namespace training
