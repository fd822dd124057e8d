"""Products of all kinds (matmul, convolution and its gradients): plan, schedules, packers, register micro-kernel."""
