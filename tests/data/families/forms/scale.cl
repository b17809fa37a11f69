kernel void scale(global const float* x, global float* y, int n) {
    int i = get_global_id(0);
    if (i < n) y[i] = 2.0f * x[i];
}
