/* How far a row of changed numbers is from the row they were, as methods/means/arcee_fusion.py defines it: the divergence of their
   softmaxes. Change by change, so that no two nearly equal numbers are subtracted:

       p = softmax(base) + floor    g = exp(change) - 1    m = sum of softmax(base) g
       t = softmax(base) (g - m) / (1 + m) / p             sum of p ((1 + t) log(1 + t) - t)

   Small changes are worked out by series, 16 and more at a time; the few large ones one by one. */

#define SMALL 0x1p-5

/* exp(x) of an x that is not above 0, to about a unit in the last place. */
INLINE double exp_below_0(double given) {
    const double x = given > -700.0 ? given : -700.0, shift = 0x1.8p52;
    double whole = x * 0x1.71547652b82fep0 + shift; /* of ln 2 as many as fit: in the lowest bits */
    uint64_t bits, scale;
    memcpy(&scale, &whole, 8);
    whole -= shift;
    const double r = fma(whole, -0x1.abc9e3b39803fp-56, fma(whole, -0x1.62e42fefa39efp-1, x));
    double sum = 1.0 / 6227020800.0;
    sum = fma(sum, r, 1.0 / 479001600.0);
    sum = fma(sum, r, 1.0 / 39916800.0);
    sum = fma(sum, r, 1.0 / 3628800.0);
    sum = fma(sum, r, 1.0 / 362880.0);
    sum = fma(sum, r, 1.0 / 40320.0);
    sum = fma(sum, r, 1.0 / 5040.0);
    sum = fma(sum, r, 1.0 / 720.0);
    sum = fma(sum, r, 1.0 / 120.0);
    sum = fma(sum, r, 1.0 / 24.0);
    sum = fma(sum, r, 1.0 / 6.0);
    sum = fma(sum, r, 0.5);
    sum = fma(sum, r, 1.0);
    sum = fma(sum, r, 1.0);
    memcpy(&bits, &sum, 8);
    bits += scale << 52;
    memcpy(&sum, &bits, 8);
    return sum;
}

/* exp(x) - 1 of a small x. */
INLINE double grown_little(double x) {
    double sum = 1.0 / 40320.0;
    sum = fma(sum, x, 1.0 / 5040.0);
    sum = fma(sum, x, 1.0 / 720.0);
    sum = fma(sum, x, 1.0 / 120.0);
    sum = fma(sum, x, 1.0 / 24.0);
    sum = fma(sum, x, 1.0 / 6.0);
    sum = fma(sum, x, 0.5);
    return fma(sum * x, x, x);
}

/* (1 + t) log(1 + t) - t of a small t. */
INLINE double apart_little(double t) {
    double sum = -1.0 / 156.0;
    sum = fma(sum, t, 1.0 / 132.0);
    sum = fma(sum, t, -1.0 / 110.0);
    sum = fma(sum, t, 1.0 / 90.0);
    sum = fma(sum, t, -1.0 / 72.0);
    sum = fma(sum, t, 1.0 / 56.0);
    sum = fma(sum, t, -1.0 / 42.0);
    sum = fma(sum, t, 1.0 / 30.0);
    sum = fma(sum, t, -1.0 / 20.0);
    sum = fma(sum, t, 1.0 / 12.0);
    sum = fma(sum, t, -1.0 / 6.0);
    sum = fma(sum, t, 0.5);
    return sum * t * t;
}

INLINE float largest_of(const float *restrict a, int n) {
    float lanes[16], most = a[0];
    for (int j = 0; j < 16; j++) lanes[j] = most;
    for (int i = 0; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) lanes[j] = a[i + j] > lanes[j] ? a[i + j] : lanes[j];
    for (int j = 0; j < 16; j++) most = lanes[j] > most ? lanes[j] : most;
    for (int i = n - n % 16; i < n; i++) most = a[i] > most ? a[i] : most;
    return most;
}

INLINE double sum_of_all(const double *restrict a, int n) {
    double lanes[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) lanes[j] += a[i + j];
    for (int j = 0; i < n; i++, j++) lanes[j] += a[i];
    return sum_of(lanes);
}

/* There is room for twice as many numbers as there are in the row. */
INLINE double divergence(const float *restrict change, const float *restrict base, int n, double *room) {
    const double floor = 1e-8, most = (double)largest_of(base, n);
    double *restrict share = room, *restrict grown = room + n;
    uint32_t large = 0;
    for (int i = 0; i < n; i++) share[i] = exp_below_0((double)base[i] - most);
    for (int i = 0; i < n; i++) grown[i] = grown_little((double)change[i]);
    for (int i = 0; i < n; i++) large |= fabsf(change[i]) > (float)SMALL;
    for (int i = 0; large && i < n; i++)
        if (fabsf(change[i]) > (float)SMALL) grown[i] = expm1(fmin(fmax((double)change[i], -600.0), 600.0));
    const double whole = 1.0 / sum_of_all(share, n);
    double lanes[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) {
            share[i + j] *= whole;
            lanes[j] += share[i + j] * grown[i + j];
        }
    for (int j = 0; i < n; i++, j++) {
        share[i] *= whole;
        lanes[j] += share[i] * grown[i];
    }
    const double mean = sum_of(lanes), over = 1.0 / fmax(1.0 + mean, 1e-300);
    large = 0;
    for (i = 0; i < n; i++) {
        const double t = (grown[i] - mean) * over * share[i] / (share[i] + floor);
        large |= fabs(t) > SMALL;
        grown[i] = t;
    }
    for (i = 0; !large && i < n; i++) share[i] = (share[i] + floor) * apart_little(grown[i]);
    for (i = 0; large && i < n; i++) {
        const double t = grown[i], p = share[i] + floor;
        share[i] = p * (fabs(t) > SMALL ? (1.0 + t) * log1p(t) - t : apart_little(t));
    }
    const double sum = sum_of_all(share, n);
    return sum > 0.0 ? sum : 0.0;
}
