/* The matrix products of a step by Eigen, whose kernels TensorFlow's CPU kernels use: one line of standard input a
 * product, "rows columns depth times". */
#include <Eigen/Core>
#include <cstdio>
#include <cstdlib>
#include <new>

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/* How Eigen says, without exceptions, that memory is short; all else of it is in its headers, so that no library of C++
 * has to be built for the processor. */
void *operator new(std::size_t) {
    std::abort();
}

int main() {
    int rows, columns, depth, times;
    while (std::scanf("%d %d %d %d", &rows, &columns, &depth, &times) == 4) {
        const Matrix a = Matrix::Constant(rows, depth, 0.5f), b = Matrix::Constant(depth, columns, 0.5f);
        Matrix c(rows, columns);
        while (times--) {
            c.noalias() = a * b;
        }
    }
}
